#include <cmath>

#include "compiler/passes/simplify.h"

namespace preheat::passes {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules
using ir::Builder;
using ir::Op;
using ir::Value;

bool Float(const Match& m) { return ir::IsFloat(m.root.dtype()); }
bool Integer(const Match& m) { return ir::IsInteger(m.root.dtype()); }
bool Bool(const Match& m) { return m.root.dtype() == ir::DType::kBool; }

// A replacement by op(captures).
Replacement To(Op op, Capture a) {
  return [op, a](const Match& m, Builder& b) { return b.Emit(op, {a(m)}); };
}
Replacement To(Op op, Capture a, Capture other) {
  return [op, a, other](const Match& m, Builder& b) { return b.Emit(op, {a(m), other(m)}); };
}
Replacement ToFill(double value) {
  return [value](const Match& m, Builder& b) { return b.Fill(value, m.root.dtype(), m.root.shape()); };
}

// Multiplication by 1/c is exact when c is a power of two and neither it nor its reciprocal is subnormal.
bool DividesByPowerOfTwo(const Match& m) {
  std::optional<double> divisor = FillValue(c(m));
  if (!Float(m) || !divisor || *divisor == 0 || !std::isfinite(*divisor)) return false;
  int exponent;
  return std::fabs(std::frexp(*divisor, &exponent)) == 0.5 && std::abs(exponent) < 14;
}
Value TimesReciprocal(const Match& m, Builder& b) {
  return b.Mul(x(m), b.Fill(1 / *FillValue(c(m)), m.root.dtype(), m.root.shape()));
}

Value Cube(const Match& m, Builder& b) { return b.Mul(b.Mul(x(m), x(m)), x(m)); }

// max(max(x, y), y) and its mirror images; z is the inner one.
Pattern Absorbed(Op op) {
  Pattern inner = As(z, Is(op, {x, y}));
  return OneOf({EitherWay(op, inner, x), EitherWay(op, inner, y)});
}

const Pattern kNegX = Is(Op::kNeg, {x});
const Pattern kNegY = Is(Op::kNeg, {y});

}  // namespace

RuleSet ArithmeticRules() {
  return {
      {Op::kAdd,
       {
           // x + 0.0 is not among them: -0.0 + 0.0 is 0.0.
           {"x + -0.0 = x", EitherWay(Op::kAdd, x, FillOf(-0.0)), x, Float},
           {"x + 0 = x", EitherWay(Op::kAdd, x, FillOf(0)), x, Integer},
           {"x or false = x", EitherWay(Op::kAdd, x, FillOf(0)), x, Bool},
           {"x + -y = x - y", EitherWay(Op::kAdd, x, kNegY), To(Op::kSub, x, y)},
       }},
      {Op::kSub,
       {
           {"x - 0 = x", Is(Op::kSub, {x, FillOf(0)}), x},
           {"x - x = 0", Is(Op::kSub, {x, x}), ToFill(0), Integer},
           {"x - -y = x + y", Is(Op::kSub, {x, kNegY}), To(Op::kAdd, x, y)},
       }},
      {Op::kMul,
       {
           {"x * 1 = x", EitherWay(Op::kMul, x, FillOf(1)), x},
           {"x * 0 = 0", EitherWay(Op::kMul, x, FillOf(0)), ToFill(0), [](const Match& m) { return !Float(m); }},
           {"x * -1 = -x", EitherWay(Op::kMul, x, FillOf(-1)), To(Op::kNeg, x),
            [](const Match& m) { return !Bool(m); }},
           {"-x * -y = x * y", Is(Op::kMul, {kNegX, kNegY}), To(Op::kMul, x, y)},
       }},
      {Op::kDiv,
       {
           {"x / 1 = x", Is(Op::kDiv, {x, FillOf(1)}), x},
           {"x / 2^n = x * 2^-n", Is(Op::kDiv, {x, AnyFill(c)}), TimesReciprocal, DividesByPowerOfTwo},
           {"-x / -y = x / y", Is(Op::kDiv, {kNegX, kNegY}), To(Op::kDiv, x, y), Float},
       }},
      {Op::kFloorDiv, {{"x // 1 = x", Is(Op::kFloorDiv, {x, FillOf(1)}), x, Integer}}},
      {Op::kFloor, {{"floor(floor(x)) = floor(x)", Is(Op::kFloor, {As(y, Is(Op::kFloor, {x}))}), y}}},
      {Op::kNeg, {{"--x = x", Is(Op::kNeg, {kNegX}), x}}},
      {Op::kAbs,
       {
           {"||x|| = |x|", Is(Op::kAbs, {As(y, Is(Op::kAbs, {x}))}), y},
           {"|-x| = |x|", Is(Op::kAbs, {kNegX}), To(Op::kAbs, x)},
       }},
      {Op::kPow,
       {
           {"x ^ 0 = 1", Is(Op::kPow, {x, FillOf(0)}), ToFill(1)},
           {"x ^ 1 = x", Is(Op::kPow, {x, FillOf(1)}), x},
           {"x ^ 2 = x * x", Is(Op::kPow, {x, FillOf(2)}), To(Op::kMul, x, x)},
           {"x ^ 3 = x * x * x", Is(Op::kPow, {x, FillOf(3)}), Cube},  // as eager computes it
       }},
      {Op::kMax,
       {
           {"max(x, x) = x", Is(Op::kMax, {x, x}), x},
           {"max(max(x, y), y) = max(x, y)", Absorbed(Op::kMax), z},
       }},
      {Op::kMin,
       {
           {"min(x, x) = x", Is(Op::kMin, {x, x}), x},
           {"min(min(x, y), y) = min(x, y)", Absorbed(Op::kMin), z},
       }},
  };
}

}  // namespace preheat::passes
