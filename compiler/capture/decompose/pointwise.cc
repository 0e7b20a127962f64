// Arithmetic, comparisons and logic, element by element. Eager computes 16-bit floats in f32 and rounds once;
// so does each row here: operands are cast to the compute type of the result, the result back.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/promote.h"

namespace preheat::decompose {
namespace {

using BinaryFn = Value (*)(OpContext&, Value, Value);
using UnaryFn = Value (*)(OpContext&, Value);

DType ResultComputeType(OpContext& c) { return ComputeType(c.ResultType().dtype); }

// One operand, in the compute type of the result (integers go to float where the result is one).
LowerFn Unary(UnaryFn fn) {
  return [fn](OpContext& c) { c.Set(fn(c, c.Operand("self", ResultComputeType(c)))); };
}
LowerFn Unary(Op op) {
  return [op](OpContext& c) { c.Set(c.b.Unary(op, c.Operand("self", ResultComputeType(c)))); };
}

// Where eager's bits are wanted, a function is taken in f64 and rounded once: eager's f32 functions, those aside that
// exact.cc names, give the float nearest to the function of an integer.
LowerFn Function(Op op) {
  return [op](OpContext& c) {
    DType dtype = ResultComputeType(c);
    bool wide = c.exact() && dtype == DType::kF32 && op != Op::kRsqrt;
    c.Set(c.b.Unary(op, c.Operand("self", wide ? DType::kF64 : dtype)));
  };
}

// Operators that leave integers as they are: ceil, floor, round, trunc.
LowerFn Rounding(Op op) {
  return [op](OpContext& c) {
    Value x = c.Operand("self", ResultComputeType(c));
    c.Set(ir::IsFloat(c.ResultType().dtype) ? c.b.Unary(op, x) : x);
  };
}

LowerFn Binary(BinaryFn fn, const char* first = "self", const char* second = "other") {
  return [fn, first, second](OpContext& c) {
    DType dtype = ResultComputeType(c);
    Value a = c.Operand(first, dtype), other = c.Operand(second, dtype);
    c.Set(fn(c, a, other));
  };
}
LowerFn Binary(Op op, const char* first = "self", const char* second = "other") {
  return [op, first, second](OpContext& c) {
    DType dtype = ResultComputeType(c);
    Value a = c.Operand(first, dtype), other = c.Operand(second, dtype);
    c.Set(c.b.Binary(op, a, other));
  };
}

// The dtype in which two operands meet where the result's does not say it.
DType Meet(OpContext& c, const char* first, const char* second) {
  capture::Promotion promotion;
  for (const char* name : {first, second}) {
    const Argument* arg = c.Arg(name);
    if (arg == nullptr) continue;
    if (std::holds_alternative<capture::ValueRef>(*arg)) {
      Value x = c.Tensor(name);
      if (x) promotion.AddTensor(x.type());
    } else {
      promotion.AddNumber(*arg);
    }
  }
  return promotion.Result();
}

LowerFn Compare(Op op) {
  return [op](OpContext& c) {
    DType dtype = Meet(c, "self", "other");
    Value a = c.Operand("self", dtype), other = c.Operand("other", dtype);
    c.Set(c.b.Binary(op, a, other));
  };
}

LowerFn Logical(Op op) {
  return [op](OpContext& c) {
    Value a = c.Operand("self", DType::kBool), other = c.Operand("other", DType::kBool);
    c.Set(c.b.Binary(op, a, other));
  };
}

// self + alpha * other; alpha 1 is left out so that the common form is one operator.
Value Scaled(OpContext& c, const char* name, Value x) {
  const Argument* arg = c.Arg(name);
  if (arg == nullptr || !x) return x;
  bool one = (std::holds_alternative<Expr>(*arg) && std::get<Expr>(*arg) == Expr(1)) ||
             (std::holds_alternative<double>(*arg) && std::get<double>(*arg) == 1.0) ||
             (std::holds_alternative<bool>(*arg) && std::get<bool>(*arg));
  if (one) return x;
  Value factor = c.Operand(name, x.dtype());
  return c.b.Binary(Op::kMul, x, factor);
}
Value Add(OpContext& c, Value a, Value other) { return c.b.Add(a, Scaled(c, "alpha", other)); }
Value Sub(OpContext& c, Value a, Value other) { return c.b.Sub(a, Scaled(c, "alpha", other)); }
Value Rsub(OpContext& c, Value a, Value other) { return c.b.Sub(other, Scaled(c, "alpha", a)); }

void DivMode(OpContext& c) {
  DType dtype = ResultComputeType(c);
  std::string mode = c.Text("rounding_mode", "");
  Value a = c.Operand("self", dtype), other = c.Operand("other", dtype);
  if (mode == "floor") return c.Set(c.b.Binary(Op::kFloorDiv, a, other));
  Value quotient = c.b.Binary(Op::kDiv, a, other);
  c.Set(mode == "trunc" && ir::IsFloat(dtype) ? c.b.Unary(Op::kTrunc, quotient) : quotient);
}

// x to a constant power; the common ones as products, as eager does.
Value Pow(OpContext& c, Value a, Value exponent) {
  const Argument* arg = c.Arg("exponent");
  double e = NAN;
  if (arg != nullptr && std::holds_alternative<double>(*arg)) e = std::get<double>(*arg);
  if (arg != nullptr && std::holds_alternative<Expr>(*arg))
    e = static_cast<double>(std::get<Expr>(*arg).constant().value_or(-1000));
  bool is_float = a && ir::IsFloat(a.dtype());
  if (e == 1) return a;
  if (e == 2) return c.b.Mul(a, a);
  if (e == 3) return c.b.Mul(c.b.Mul(a, a), a);
  if (!is_float) return c.b.Binary(Op::kPow, a, exponent);
  if (e == 0.5) return c.b.Unary(Op::kSqrt, a);
  if (e == -0.5) return c.b.Unary(Op::kRsqrt, a);
  if (e == -1) return c.b.Unary(Op::kReciprocal, a);
  if (e == -2) return c.b.Unary(Op::kReciprocal, c.b.Mul(a, a));
  return c.b.Binary(Op::kPow, a, exponent);
}

void Addc(OpContext& c, Op op) {
  DType dtype = ResultComputeType(c);
  Value a = c.Operand("tensor1", dtype), d = c.Operand("tensor2", dtype);
  Value scaled = c.Arg("value") != nullptr ? Scaled(c, "value", a) : a;
  c.Set(c.b.Add(c.Operand("self", dtype), c.b.Binary(op, scaled, d)));
}

void Lerp(OpContext& c) {
  DType dtype = ResultComputeType(c);
  Value start = c.Operand("self", dtype), end = c.Operand("end", dtype), weight = c.Operand("weight", dtype);
  // Eager takes whichever end is nearer as the base.
  Value difference = c.b.Sub(end, start);
  Value near_start = c.b.Add(start, c.b.Mul(weight, difference));
  Value near_end = c.b.Sub(end, c.b.Mul(difference, c.b.Sub(Like(c.b, weight, 1), weight)));
  c.Set(c.b.Where(c.b.Binary(Op::kLt, c.b.Unary(Op::kAbs, weight), Scalar(0.5)), near_start, near_end));
}

void ClampOp(OpContext& c, const char* low_name, const char* high_name) {
  DType dtype = ResultComputeType(c);
  Value x = c.Operand("self", dtype);
  Value low = low_name != nullptr && c.Has(low_name) ? c.Operand(low_name, dtype) : Value{};
  Value high = high_name != nullptr && c.Has(high_name) ? c.Operand(high_name, dtype) : Value{};
  c.Set(Clamp(c.b, x, low, high));
}

void Where(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  Value condition = c.Operand("condition", DType::kBool);
  Value a = c.Operand("self", dtype), other = c.Operand("other", dtype);
  c.Set(c.b.Where(condition, a, other));
}

void MaskedFill(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  Value mask = c.Operand("mask", DType::kBool);
  Value fill = c.Operand("value", dtype), x = c.Operand("self", dtype);
  c.Set(c.b.Where(mask, fill, x));
}

// fmax ignores a NaN where the other operand is a number.
Value IgnoringNan(OpContext& c, Op op, Value a, Value other) {
  if (!a || !ir::IsFloat(a.dtype())) return c.b.Binary(op, a, other);
  Value picked = c.b.Where(c.b.Unary(Op::kIsNan, other), a, c.b.Binary(op, a, other));
  return c.b.Where(c.b.Unary(Op::kIsNan, a), other, picked);
}

void IsInf(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || !ir::IsFloat(x.dtype())) return c.Set(c.Fill(0, DType::kBool, c.ResultShape()));
  c.Set(c.b.Binary(Op::kEq, c.b.Unary(Op::kAbs, x), Scalar(INFINITY)));
}

void IsFinite(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || !ir::IsFloat(x.dtype())) return c.Set(c.Fill(1, DType::kBool, c.ResultShape()));
  c.Set(c.b.Binary(Op::kLt, c.b.Unary(Op::kAbs, x), Scalar(INFINITY)));
}

void IsNan(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || !ir::IsFloat(x.dtype())) return c.Set(c.Fill(0, DType::kBool, c.ResultShape()));
  c.Set(c.b.Unary(Op::kIsNan, x));
}

LowerFn IsInfinite(double infinity) {
  return [infinity](OpContext& c) {
    Value x = c.Tensor("self");
    if (!x || !ir::IsFloat(x.dtype())) return c.Set(c.Fill(0, DType::kBool, c.ResultShape()));
    c.Set(c.b.Binary(Op::kEq, x, Scalar(infinity)));
  };
}

// -0 and NaNs have signs too.
void SignBit(OpContext& c) {
  Value x = c.Tensor("self");
  if (x && x.dtype() == DType::kBool) return c.Set(c.Fill(0, DType::kBool, c.ResultShape()));
  if (x && ir::IsFloat(x.dtype())) x = c.b.Binary(Op::kCopySign, Like(c.b, x, 1), x);
  c.Set(c.b.Binary(Op::kLt, x, Like(c.b, x, 0)));
}

void NanToNum(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  Value x = c.Operand("self", dtype);
  if (!ir::IsFloat(dtype)) return c.Set(x);
  static const double kMax[] = {65504.0, 3.3895313892515355e38, 3.4028234663852886e38, 1.7976931348623157e308};
  double largest = kMax[static_cast<int>(dtype) - static_cast<int>(DType::kF16)];
  auto constant = [&](const char* name, double otherwise) { return c.Fill(c.Double(name, otherwise), dtype); };
  Value r = c.b.Where(c.b.Unary(Op::kIsNan, x), constant("nan", 0), x);
  r = c.b.Where(c.b.Binary(Op::kEq, r, Scalar(INFINITY)), constant("posinf", largest), r);
  c.Set(c.b.Where(c.b.Binary(Op::kEq, r, Scalar(-INFINITY)), constant("neginf", -largest), r));
}

void RoundDecimals(OpContext& c) {
  DType dtype = ResultComputeType(c);
  Value x = c.Operand("self", dtype);
  int64_t decimals = c.Int("decimals", 0);
  if (!ir::IsFloat(dtype)) return c.Refuse("rounding integers to decimals");
  double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  Scalar s = OpContext::Number(scale, dtype);
  Op in = decimals < 0 ? Op::kDiv : Op::kMul, out = decimals < 0 ? Op::kMul : Op::kDiv;
  c.Set(c.b.Binary(out, c.b.Unary(Op::kRound, c.b.Binary(in, x, s)), s));
}

void BitwiseNot(OpContext& c) { c.Set(c.b.Unary(Op::kNot, c.Tensor("self"))); }

Value Square(OpContext& c, Value x) { return c.b.Mul(x, x); }
Value Sgn(OpContext& c, Value x) {
  if (x && x.dtype() == DType::kBool) return x;
  return c.b.Unary(Op::kSign, x);
}
Value Frac(OpContext& c, Value x) { return c.b.Sub(x, c.b.Unary(Op::kTrunc, x)); }
Value Logit(OpContext& c, Value x) {
  if (c.Has("eps")) {
    double eps = c.Double("eps", 0);
    x = Clamp(c.b, x, Like(c.b, x, eps), Like(c.b, x, 1 - eps));
  }
  return c.b.Unary(Op::kLog, c.b.Div(x, c.b.Sub(Like(c.b, x, 1), x)));
}
Value Abs(OpContext& c, Value x) { return x && x.dtype() == DType::kBool ? x : c.b.Unary(Op::kAbs, x); }
// sin(pi x) / (pi x), which is 1 at 0.
Value Sinc(OpContext& c, Value x) {
  Value angle = c.b.Mul(x, M_PI), sine = c.b.Unary(Op::kSin, angle);
  if (c.exact() && angle && angle.dtype() == DType::kF32)
    sine = c.b.Cast(c.b.Unary(Op::kSin, c.b.Cast(angle, DType::kF64)), DType::kF32);
  Value quotient = c.b.Div(sine, angle);
  return c.b.Where(c.b.Binary(Op::kEq, angle, Scalar(0.0)), Like(c.b, x, 1), quotient);
}
// Of a real number: pi where it is negative. NaN stays.
Value Angle(OpContext& c, Value x) {
  Value angle = c.b.Where(c.b.Binary(Op::kLt, x, Like(c.b, x, 0)), Like(c.b, x, M_PI), Like(c.b, x, 0));
  return c.b.Where(c.b.Unary(Op::kIsNan, x), x, angle);
}
// -x log(x), which is 0 at 0 and -inf below.
Value Entropy(OpContext& c, Value x) {
  Value inside = c.b.Unary(Op::kNeg, c.b.Mul(x, c.b.Unary(Op::kLog, x)));
  Value edge = c.b.Where(c.b.Binary(Op::kEq, x, Scalar(0.0)), Like(c.b, x, 0), Like(c.b, x, -INFINITY));
  Value entropy = c.b.Where(c.b.Binary(Op::kGt, x, Scalar(0.0)), inside, edge);
  return c.b.Where(c.b.Unary(Op::kIsNan, x), x, entropy);
}
Value Deg2Rad(OpContext& c, Value x) { return c.b.Mul(x, M_PI / 180); }
Value Rad2Deg(OpContext& c, Value x) { return c.b.Mul(x, 180 / M_PI); }

// x * log(y), 0 where x is 0 unless y is NaN.
Value XLogY(OpContext& c, Value x, Value y) {
  Value product = c.b.Mul(x, c.b.Unary(Op::kLog, y));
  Value zero = c.b.Where(c.b.Binary(Op::kEq, x, Scalar(0.0)), Like(c.b, x, 0), product);
  return c.b.Where(c.b.Unary(Op::kIsNan, y), y, zero);
}

// log(exp(a) + exp(b)); the difference of equal infinities must not arise.
Value LogAddExp(OpContext& c, Value x, Value y) {
  Value max = c.b.Binary(Op::kMax, x, y);
  Value distance = c.b.Unary(Op::kNeg, c.b.Unary(Op::kAbs, c.b.Sub(x, y)));
  Value sum = c.b.Add(max, c.b.Unary(Op::kLog1p, c.b.Unary(Op::kExp, distance)));
  return c.b.Where(c.b.Binary(Op::kEq, x, y), c.b.Add(max, M_LN2), sum);
}

// log2(2^x + 2^y)
Value LogAddExp2(OpContext& c, Value x, Value y) {
  Value max = c.b.Binary(Op::kMax, x, y);
  Value distance = c.b.Unary(Op::kNeg, c.b.Unary(Op::kAbs, c.b.Sub(x, y)));
  Value rest = c.b.Mul(c.b.Unary(Op::kLog1p, c.b.Unary(Op::kExp2, distance)), M_LOG2E);
  return c.b.Where(c.b.Binary(Op::kEq, x, y), c.b.Add(max, 1.0), c.b.Add(max, rest));
}

// x * log1p(y), 0 where x is 0 unless y is NaN.
Value XLog1pY(OpContext& c, Value x, Value y) {
  Value product = c.b.Mul(x, c.b.Unary(Op::kLog1p, y));
  Value zero = c.b.Where(c.b.Binary(Op::kEq, x, Scalar(0.0)), Like(c.b, x, 0), product);
  return c.b.Where(c.b.Unary(Op::kIsNan, y), y, zero);
}

// self * 2^other; the power of an integer is taken in f32, as eager takes it.
void LoadExponent(OpContext& c) {
  DType dtype = ResultComputeType(c);
  Value x = c.Operand("self", dtype), exponent = c.Tensor("other");
  if (!exponent) return;
  DType power = ir::IsFloat(exponent.dtype()) ? ComputeType(exponent.dtype()) : DType::kF32;
  c.Set(c.b.Mul(x, c.b.Cast(c.b.Unary(Op::kExp2, c.b.Cast(exponent, power)), dtype)));
}

// By the ratio to the larger one, so that no square overflows; infinite if either is, even beside a NaN.
Value Hypot(OpContext& c, Value x, Value y) {
  x = c.b.Unary(Op::kAbs, x);
  y = c.b.Unary(Op::kAbs, y);
  Value large = c.b.Binary(Op::kMax, x, y), ratio = c.b.Div(c.b.Binary(Op::kMin, x, y), large);
  Value length = c.b.Mul(large, c.b.Unary(Op::kSqrt, c.b.Add(c.b.Mul(ratio, ratio), 1.0)));
  length = c.b.Where(c.b.Binary(Op::kEq, large, Scalar(0.0)), large, length);
  Value infinite =
      c.b.Binary(Op::kOr, c.b.Binary(Op::kEq, x, Scalar(INFINITY)), c.b.Binary(Op::kEq, y, Scalar(INFINITY)));
  return c.b.Where(infinite, Like(c.b, large, INFINITY), length);
}

// x = mantissa 2^exponent with |mantissa| in [1/2, 1), in f64, which holds every power that an f32 needs.
void Frexp(OpContext& c) {
  Builder& b = c.b;
  Value given = c.Tensor("self");
  if (!given || given.dtype() == DType::kF64) return c.Refuse("f64");
  Value x = b.Cast(given, DType::kF64), size = b.Unary(Op::kAbs, x);
  Value exponent = b.Add(b.Unary(Op::kFloor, b.Unary(Op::kLog2, size)), 1.0);
  Value mantissa = b.Mul(size, b.Unary(Op::kExp2, b.Unary(Op::kNeg, exponent)));
  // Near a power of two the logarithm may have been rounded to it.
  Value high = b.Binary(Op::kGe, mantissa, Scalar(1.0)), low = b.Binary(Op::kLt, mantissa, Scalar(0.5));
  Value up = b.Where(high, Like(b, x, 1), b.Where(low, Like(b, x, -1), Like(b, x, 0)));
  mantissa = b.Where(high, b.Mul(mantissa, 0.5), b.Where(low, b.Mul(mantissa, 2.0), mantissa));
  // Zeros, infinities and NaN are their own mantissa.
  Value plain = b.Binary(Op::kAnd, b.Binary(Op::kGt, size, Scalar(0.0)), b.Binary(Op::kLt, size, Scalar(INFINITY)));
  c.Set(0, b.Where(plain, b.Binary(Op::kCopySign, mantissa, x), x));
  c.Set(1, b.Where(plain, b.Add(exponent, up), Like(b, x, 0)));
}

void Heaviside(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  Value x = c.Operand("self", dtype), at_zero = c.Operand("values", dtype);
  Value zero = Like(c.b, x, 0);
  Value step = c.b.Where(c.b.Binary(Op::kGt, x, zero), Like(c.b, x, 1), zero);
  c.Set(c.b.Where(c.b.Binary(Op::kEq, x, zero), at_zero, step));
}

void Threshold(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  Value x = c.Operand("self", dtype), threshold = c.Operand("threshold", dtype), value = c.Operand("value", dtype);
  // NaN is kept: it is not <= the threshold.
  c.Set(c.b.Where(c.b.Binary(Op::kLe, x, threshold), value, x));
}

void AddRows(OpTable& table, std::initializer_list<const char*> names, const LowerFn& fn) {
  for (const char* name : names) table.emplace_back(name, fn);
}

void AddUnary(OpTable& table) {
  const std::pair<const char*, Op> floats[] = {{"aten.sqrt.default", Op::kSqrt},
                                               {"aten.rsqrt.default", Op::kRsqrt},
                                               {"aten.reciprocal.default", Op::kReciprocal},
                                               {"aten.exp.default", Op::kExp},
                                               {"aten.exp2.default", Op::kExp2},
                                               {"aten.expm1.default", Op::kExpm1},
                                               {"aten.log.default", Op::kLog},
                                               {"aten.log2.default", Op::kLog2},
                                               {"aten.log10.default", Op::kLog10},
                                               {"aten.log1p.default", Op::kLog1p},
                                               {"aten.sin.default", Op::kSin},
                                               {"aten.cos.default", Op::kCos},
                                               {"aten.tan.default", Op::kTan},
                                               {"aten.asin.default", Op::kAsin},
                                               {"aten.acos.default", Op::kAcos},
                                               {"aten.atan.default", Op::kAtan},
                                               {"aten.sinh.default", Op::kSinh},
                                               {"aten.cosh.default", Op::kCosh},
                                               {"aten.tanh.default", Op::kTanh},
                                               {"aten.asinh.default", Op::kAsinh},
                                               {"aten.acosh.default", Op::kAcosh},
                                               {"aten.atanh.default", Op::kAtanh},
                                               {"aten.erf.default", Op::kErf},
                                               {"aten.erfc.default", Op::kErfc},
                                               {"aten.special_erf.default", Op::kErf},
                                               {"aten.arcsin.default", Op::kAsin},
                                               {"aten.arctan.default", Op::kAtan}};
  for (const auto& [name, op] : floats) table.emplace_back(name, Function(op));
  const std::pair<const char*, Op> roundings[] = {{"aten.ceil.default", Op::kCeil},
                                                  {"aten.floor.default", Op::kFloor},
                                                  {"aten.trunc.default", Op::kTrunc},
                                                  {"aten.fix.default", Op::kTrunc},
                                                  {"aten.round.default", Op::kRound}};
  for (const auto& [name, op] : roundings) table.emplace_back(name, Rounding(op));
  AddRows(table, {"aten.neg.default", "aten.negative.default"}, Unary(Op::kNeg));
  AddRows(table, {"aten.abs.default", "aten.absolute.default"}, Unary(Abs));
  AddRows(table, {"aten.sign.default", "aten.sgn.default"}, Unary(Sgn));
  table.emplace_back("aten.square.default", Unary(Square));
  table.emplace_back("aten.frac.default", Unary(Frac));
  AddRows(table, {"aten.logit.default", "aten.special_logit.default"}, Unary(Logit));
  AddRows(table, {"aten.sinc.default", "aten.special_sinc.default"}, Unary(Sinc));
  table.emplace_back("aten.deg2rad.default", Unary(Deg2Rad));
  table.emplace_back("aten.rad2deg.default", Unary(Rad2Deg));
  table.emplace_back("aten.round.decimals", RoundDecimals);
  table.emplace_back("aten.nan_to_num.default", NanToNum);
  table.emplace_back("aten.isinf.default", IsInf);
  table.emplace_back("aten.isfinite.default", IsFinite);
  table.emplace_back("aten.isnan.default", IsNan);
  table.emplace_back("aten.isposinf.default", IsInfinite(INFINITY));
  table.emplace_back("aten.isneginf.default", IsInfinite(-INFINITY));
  table.emplace_back("aten.signbit.default", SignBit);
  table.emplace_back("aten.angle.default", Unary(Angle));
  AddRows(table, {"aten.special_entr.default"}, Unary(Entropy));
  table.emplace_back("aten.bitwise_not.default", BitwiseNot);
  table.emplace_back("aten.logical_not.default",
                     [](OpContext& c) { c.Set(c.b.Unary(Op::kNot, c.Operand("self", DType::kBool))); });
  AddRows(table,
          {"aten.positive.default", "aten.real.default", "aten.conj.default", "aten._conj.default",
           "aten.resolve_conj.default", "aten.resolve_neg.default"},
          [](OpContext& c) { c.Set(c.Tensor("self")); });
}

void AddBinary(OpTable& table) {
  AddRows(table, {"aten.add.Tensor", "aten.add.Scalar"}, Binary(Add));
  AddRows(table, {"aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor"}, Binary(Sub));
  AddRows(table, {"aten.rsub.Tensor", "aten.rsub.Scalar"}, Binary(Rsub));
  AddRows(table, {"aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor"}, Binary(Op::kMul));
  AddRows(table, {"aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.divide.Tensor"},
          Binary(Op::kDiv));
  AddRows(table, {"aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode"}, DivMode);
  AddRows(table, {"aten.floor_divide.default", "aten.floor_divide.Scalar"}, Binary(Op::kFloorDiv));
  AddRows(table, {"aten.remainder.Tensor", "aten.remainder.Scalar"}, Binary(Op::kMod));
  AddRows(table, {"aten.fmod.Tensor", "aten.fmod.Scalar"}, Binary(Op::kFmod));
  AddRows(table, {"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar"},
          Binary(Pow, "self", "exponent"));
  AddRows(table, {"aten.maximum.default", "aten.max.other"}, Binary(Op::kMax));
  AddRows(table, {"aten.minimum.default", "aten.min.other"}, Binary(Op::kMin));
  table.emplace_back("aten.fmax.default",
                     Binary([](OpContext& c, Value a, Value o) { return IgnoringNan(c, Op::kMax, a, o); }));
  table.emplace_back("aten.fmin.default",
                     Binary([](OpContext& c, Value a, Value o) { return IgnoringNan(c, Op::kMin, a, o); }));
  AddRows(table, {"aten.atan2.default", "aten.arctan2.default"}, Binary(Op::kAtan2));
  AddRows(table, {"aten.copysign.Tensor", "aten.copysign.Scalar"}, Binary(Op::kCopySign));
  AddRows(table,
          {"aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self", "aten.special_xlogy.default"},
          Binary(XLogY));
  AddRows(table,
          {"aten.special_xlog1py.default", "aten.special_xlog1py.other_scalar", "aten.special_xlog1py.self_scalar"},
          Binary(XLog1pY));
  table.emplace_back("aten.logaddexp.default", Binary(LogAddExp));
  table.emplace_back("aten.logaddexp2.default", Binary(LogAddExp2));
  table.emplace_back("aten.nextafter.default", Binary(Op::kNextAfter));
  table.emplace_back("aten.ldexp.Tensor", LoadExponent);
  table.emplace_back("aten.hypot.default", Binary(Hypot));
  AddRows(table, {"aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar", "aten.__and__.Tensor", "aten.__and__.Scalar"},
          Binary(Op::kAnd));
  AddRows(table, {"aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar", "aten.__or__.Tensor", "aten.__or__.Scalar"},
          Binary(Op::kOr));
  AddRows(table, {"aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar", "aten.__xor__.Tensor", "aten.__xor__.Scalar"},
          Binary(Op::kXor));
  AddRows(table,
          {"aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar", "aten.__lshift__.Scalar",
           "aten.__lshift__.Tensor"},
          Binary(Op::kShl));
  AddRows(table,
          {"aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar", "aten.__rshift__.Scalar",
           "aten.__rshift__.Tensor"},
          Binary(Op::kShr));
}

void AddComparisons(OpTable& table) {
  const std::pair<const char*, Op> rows[] = {
      {"aten.eq.Tensor", Op::kEq},       {"aten.eq.Scalar", Op::kEq},   {"aten.ne.Tensor", Op::kNe},
      {"aten.ne.Scalar", Op::kNe},       {"aten.lt.Tensor", Op::kLt},   {"aten.lt.Scalar", Op::kLt},
      {"aten.le.Tensor", Op::kLe},       {"aten.le.Scalar", Op::kLe},   {"aten.gt.Tensor", Op::kGt},
      {"aten.gt.Scalar", Op::kGt},       {"aten.ge.Tensor", Op::kGe},   {"aten.ge.Scalar", Op::kGe},
      {"aten.greater.Tensor", Op::kGt},  {"aten.less.Tensor", Op::kLt}, {"aten.not_equal.Tensor", Op::kNe},
      {"aten.not_equal.Scalar", Op::kNe}};
  for (const auto& [name, op] : rows) table.emplace_back(name, Compare(op));
  table.emplace_back("aten.logical_and.default", Logical(Op::kAnd));
  table.emplace_back("aten.logical_or.default", Logical(Op::kOr));
  table.emplace_back("aten.logical_xor.default", Logical(Op::kXor));
}

}  // namespace

OpTable PointwiseOps() {
  OpTable table;
  AddUnary(table);
  AddBinary(table);
  AddComparisons(table);
  table.emplace_back("aten.addcmul.default", [](OpContext& c) { Addc(c, Op::kMul); });
  table.emplace_back("aten.addcdiv.default", [](OpContext& c) { Addc(c, Op::kDiv); });
  AddRows(table, {"aten.lerp.Tensor", "aten.lerp.Scalar"}, Lerp);
  AddRows(table, {"aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default"},
          [](OpContext& c) { ClampOp(c, "min", "max"); });
  AddRows(table, {"aten.clamp_min.default", "aten.clamp_min.Tensor"}, [](OpContext& c) { ClampOp(c, "min", nullptr); });
  AddRows(table, {"aten.clamp_max.default", "aten.clamp_max.Tensor"}, [](OpContext& c) { ClampOp(c, nullptr, "max"); });
  AddRows(table, {"aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar"}, Where);
  AddRows(table, {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}, MaskedFill);
  table.emplace_back("aten.frexp.Tensor", Frexp);
  table.emplace_back("aten.heaviside.default", Heaviside);
  table.emplace_back("aten.threshold.default", Threshold);
  return table;
}

}  // namespace preheat::decompose
