#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/ir/evaluate_ops.h"
#include "compiler/ir/scalar.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

uint64_t U(int64_t x) { return static_cast<uint64_t>(x); }
int64_t I(uint64_t x) { return static_cast<int64_t>(x); }

double UnaryFloat(Op op, double x) {
  switch (op) {
    case Op::kNeg: return -x;
    case Op::kAbs: return std::fabs(x);
    case Op::kSign: return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0;
    case Op::kCeil: return std::ceil(x);
    case Op::kFloor: return std::floor(x);
    case Op::kTrunc: return std::trunc(x);
    case Op::kRound: return std::nearbyint(x);
    case Op::kSqrt: return std::sqrt(x);
    case Op::kRsqrt: return 1 / std::sqrt(x);
    case Op::kReciprocal: return 1 / x;
    case Op::kExp: return std::exp(x);
    case Op::kExp2: return std::exp2(x);
    case Op::kExpm1: return std::expm1(x);
    case Op::kLog: return std::log(x);
    case Op::kLog2: return std::log2(x);
    case Op::kLog10: return std::log10(x);
    case Op::kLog1p: return std::log1p(x);
    case Op::kSin: return std::sin(x);
    case Op::kCos: return std::cos(x);
    case Op::kTan: return std::tan(x);
    case Op::kAsin: return std::asin(x);
    case Op::kAcos: return std::acos(x);
    case Op::kAtan: return std::atan(x);
    case Op::kSinh: return std::sinh(x);
    case Op::kCosh: return std::cosh(x);
    case Op::kTanh: return std::tanh(x);
    case Op::kAsinh: return std::asinh(x);
    case Op::kAcosh: return std::acosh(x);
    case Op::kAtanh: return std::atanh(x);
    case Op::kErf: return std::erf(x);
    case Op::kErfc: return std::erfc(x);
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

int64_t UnaryInt(Op op, DType dtype, int64_t x) {
  switch (op) {
    case Op::kNeg: return I(0 - U(x));
    case Op::kAbs: return x < 0 ? I(0 - U(x)) : x;
    case Op::kSign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Op::kNot: return dtype == DType::kBool ? x == 0 : ~x;
    default: return 0;
  }
}

// What lies outside the integer's range is undefined in C; here it is what x86 gives.
int64_t FloatToInt(DType dtype, double x) {
  if (dtype == DType::kI64) return std::fabs(x) < 0x1p63 ? static_cast<int64_t>(x) : INT64_MIN;
  double whole = std::trunc(x);
  return whole >= INT32_MIN && whole <= INT32_MAX ? static_cast<int64_t>(x) : INT32_MIN;
}

void EvaluateCast(Evaluation& e) {
  const HostTensor& x = e.in(0);
  HostTensor& out = e.out();
  for (int64_t i = 0, n = out.elements(); i < n; ++i) {
    if (IsFloat(out.dtype)) {
      out.SetFloat(i, IsFloat(x.dtype) ? x.Float(i) : static_cast<double>(x.Int(i)));
    } else if (!IsFloat(x.dtype)) {
      out.SetInt(i, x.Int(i));
    } else {
      out.SetInt(i, out.dtype == DType::kBool ? x.Float(i) != 0 : FloatToInt(out.dtype, x.Float(i)));
    }
  }
}

void EvaluateUnary(Evaluation& e) {
  const HostTensor& x = e.in(0);
  HostTensor& out = e.out();
  Op op = e.node.op();
  for (int64_t i = 0, n = out.elements(); i < n; ++i) {
    if (op == Op::kIsNan) {
      out.SetInt(i, std::isnan(x.Float(i)));
    } else if (IsFloat(x.dtype)) {
      out.SetFloat(i, UnaryFloat(op, x.Float(i)));
    } else {
      out.SetInt(i, UnaryInt(op, x.dtype, x.Int(i)));
    }
  }
}

void EvaluateWhere(Evaluation& e) {
  for (int64_t i = 0, n = e.out().elements(); i < n; ++i) {
    e.out().CopyElement(i, e.in(e.in(0).Int(i) ? 1 : 2), i);
  }
}

double FloorDivFloat(double a, double b) {
  if (b == 0) return a / b;
  double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0.0, a / b);
  double floored = std::floor(div);
  return div - floored > 0.5 ? floored + 1 : floored;
}

double ModFloat(double a, double b) {
  double mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

double NextAfter(DType dtype, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::kF64) return std::nextafter(a, b);
  if (dtype == DType::kF32) return std::nextafter(static_cast<float>(a), static_cast<float>(b));
  if (a == b) return b;
  bool half = dtype == DType::kF16;
  if (a == 0) return std::copysign(half ? DecodeF16(1) : DecodeBF16(1), b);
  uint16_t bits = half ? EncodeF16(a) : EncodeBF16(a);
  bits += (a < b) == (a > 0) ? 1 : -1;  // sign and magnitude: away from zero is one up
  return half ? DecodeF16(bits) : DecodeBF16(bits);
}

bool Compare(Op op, auto a, auto b) {
  switch (op) {
    case Op::kEq: return a == b;
    case Op::kNe: return a != b;
    case Op::kLt: return a < b;
    case Op::kLe: return a <= b;
    case Op::kGt: return a > b;
    default: return a >= b;
  }
}

int64_t PowInt(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = I(U(result) * U(base));
    base = I(U(base) * U(base));
  }
  return result;
}

absl::StatusOr<int64_t> DivideInt(Op op, int64_t a, int64_t b) {
  if (b == 0) return absl::OutOfRangeError("an integer is divided by zero");
  if (b == -1) return op == Op::kMod || op == Op::kFmod ? 0 : I(0 - U(a));  // the one overflow
  int64_t quotient = a / b, rest = a % b;
  bool crossed = rest != 0 && (rest < 0) != (b < 0);
  switch (op) {
    case Op::kDiv: return quotient;
    case Op::kFloorDiv: return crossed ? quotient - 1 : quotient;
    case Op::kMod: return crossed ? rest + b : rest;
    default: return rest;
  }
}

int64_t Shift(Op op, DType dtype, int64_t a, int64_t b) {
  int64_t width = DTypeSize(dtype) * 8;
  bool out = b < 0 || b >= width;
  if (op == Op::kShl) return out ? 0 : I(U(a) << b);
  return out ? (a < 0 ? -1 : 0) : a >> b;
}

absl::Status EvaluateBinary(Evaluation& e) {
  const HostTensor &a = e.in(0), &b = e.in(1);
  HostTensor& out = e.out();
  Op op = e.node.op();
  bool compares = op >= Op::kEq && op <= Op::kGe;
  for (int64_t i = 0, n = out.elements(); i < n; ++i) {
    if (compares) {
      out.SetInt(i, IsFloat(a.dtype) ? Compare(op, a.Float(i), b.Float(i)) : Compare(op, a.Int(i), b.Int(i)));
    } else {
      RETURN_IF_ERROR(Apply(op, out, i, a, i, b, i));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Apply(Op op, HostTensor& out, int64_t to, const HostTensor& a, int64_t i, const HostTensor& b, int64_t j) {
  if (IsFloat(a.dtype)) {
    ASSIGN_OR_RETURN(double value, ApplyFloat(op, a.dtype, a.Float(i), b.Float(j)));
    out.SetFloat(to, value);
  } else {
    ASSIGN_OR_RETURN(int64_t value, ApplyInt(op, a.dtype, a.Int(i), b.Int(j)));
    out.SetInt(to, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ApplyFloat(Op op, DType dtype, double a, double b) {
  switch (op) {
    case Op::kAdd: return a + b;
    case Op::kSub: return a - b;
    case Op::kMul: return a * b;
    case Op::kDiv: return a / b;
    case Op::kFloorDiv: return FloorDivFloat(a, b);
    case Op::kMod: return ModFloat(a, b);
    case Op::kFmod: return std::fmod(a, b);
    case Op::kPow: return std::pow(a, b);
    case Op::kAtan2: return std::atan2(a, b);
    case Op::kMax: return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    case Op::kMin: return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case Op::kCopySign: return std::copysign(a, b);
    case Op::kNextAfter: return NextAfter(dtype, a, b);
    default: return absl::InternalError(absl::StrCat(Info(op).name, " of floats"));
  }
}

absl::StatusOr<int64_t> ApplyInt(Op op, DType dtype, int64_t a, int64_t b) {
  bool boolean = dtype == DType::kBool;
  switch (op) {
    case Op::kAdd: return boolean ? a | b : I(U(a) + U(b));
    case Op::kSub: return I(U(a) - U(b));
    case Op::kMul: return I(U(a) * U(b));
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kMod:
    case Op::kFmod: return DivideInt(op, a, b);
    case Op::kPow: return PowInt(a, b);
    case Op::kMax: return std::max(a, b);
    case Op::kMin: return std::min(a, b);
    case Op::kAnd: return a & b;
    case Op::kOr: return a | b;
    case Op::kXor: return a ^ b;
    case Op::kShl:
    case Op::kShr: return Shift(op, dtype, a, b);
    default: return absl::InternalError(absl::StrCat(Info(op).name, " of integers"));
  }
}

absl::Status EvaluatePointwise(Evaluation& e) {
  if (e.node.op() == Op::kCast) {
    EvaluateCast(e);
  } else if (e.node.op() == Op::kWhere) {
    EvaluateWhere(e);
  } else if (IsUnaryPointwise(e.node.op())) {
    EvaluateUnary(e);
  } else {
    return EvaluateBinary(e);
  }
  return absl::OkStatus();
}

}  // namespace preheat::ir
