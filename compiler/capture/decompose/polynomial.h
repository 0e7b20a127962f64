#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_POLYNOMIAL_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_POLYNOMIAL_H_

#include <array>
#include <cstddef>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

// What formulas of fitted polynomials are written in.
namespace preheat::decompose {

// Horner's scheme; the highest power comes first.
template <size_t N>
Value Polynomial(Builder& b, Value t, const std::array<double, N>& coefficients) {
  Value sum = Like(b, t, coefficients[0]);
  for (size_t i = 1; i < N; ++i) sum = b.Add(b.Mul(sum, t), coefficients[i]);
  return sum;
}

inline Value Number(Builder& b, Value like, double value) { return Like(b, like, value); }
inline Value Neg(Builder& b, Value x) { return b.Unary(Op::kNeg, x); }
inline Value Abs(Builder& b, Value x) { return b.Unary(Op::kAbs, x); }
inline Value Exp(Builder& b, Value x) { return b.Unary(Op::kExp, x); }
inline Value Log(Builder& b, Value x) { return b.Unary(Op::kLog, x); }
inline Value Sqrt(Builder& b, Value x) { return b.Unary(Op::kSqrt, x); }
inline Value Less(Builder& b, Value x, double bound) { return b.Binary(Op::kLt, x, Scalar(bound)); }
inline Value Equal(Builder& b, Value x, double y) { return b.Binary(Op::kEq, x, Scalar(y)); }
inline Value DivideNumber(Builder& b, double number, Value x) { return b.Div(Number(b, x, number), x); }
// The number where the condition holds, y elsewhere.
inline Value Pick(Builder& b, Value condition, double x, Value y) { return b.Where(condition, Number(b, y, x), y); }
inline Value Clamped(Builder& b, Value x, double low, double high) {
  return b.Binary(Op::kMin, b.Binary(Op::kMax, x, Scalar(low)), Scalar(high));
}

// A lowering by a formula that is as good as f32; f64 is refused.
using SpecialFn = Value (*)(Builder&, Value);
inline LowerFn Special(SpecialFn fn) {
  return [fn](OpContext& c) {
    DType dtype = ComputeType(c.ResultType().dtype);
    if (dtype != DType::kF32) return c.Refuse("a polynomial for f64");
    c.Set(fn(c.b, c.Operand(c.Arg("self") != nullptr ? "self" : "x", dtype)));
  };
}

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_POLYNOMIAL_H_
