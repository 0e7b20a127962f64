#include "compiler/capture/decompose/formulas.h"

#include <cmath>
#include <limits>
#include <utility>

namespace preheat::decompose {

Value Relu(Builder& b, Value x) { return b.Binary(Op::kMax, x, OpContext::Number(0, x ? x.dtype() : DType::kF32)); }

Value Sigmoid(Builder& b, Value x) {
  return b.Unary(Op::kReciprocal, b.Add(b.Unary(Op::kExp, b.Unary(Op::kNeg, x)), 1.0));
}

Value Silu(Builder& b, Value x) { return b.Mul(x, Sigmoid(b, x)); }

Value Gelu(Builder& b, Value x, bool tanh) {
  if (!tanh) return b.Mul(b.Mul(x, 0.5), b.Add(b.Unary(Op::kErf, b.Mul(x, M_SQRT1_2)), 1.0));
  Value cubed = b.Mul(b.Mul(b.Mul(x, x), x), 0.044715);
  Value inner = b.Mul(b.Add(x, cubed), M_SQRT2 * M_2_SQRTPI * 0.5);
  return b.Mul(b.Mul(x, 0.5), b.Add(b.Unary(Op::kTanh, inner), 1.0));
}

Value Softplus(Builder& b, Value x, double beta, double threshold) {
  Value scaled = b.Mul(x, beta);
  Value soft = b.Binary(Op::kDiv, b.Unary(Op::kLog1p, b.Unary(Op::kExp, scaled)), Scalar(beta));
  return b.Where(b.Binary(Op::kGt, scaled, Scalar(threshold)), x, soft);
}

Value Clamp(Builder& b, Value x, Value low, Value high) {
  if (low) x = b.Binary(Op::kMax, x, low);
  if (high) x = b.Binary(Op::kMin, x, high);
  return x;
}

Value Softmax(Builder& b, Value x, int64_t dim, bool masked) {
  Value max = b.Reduce(Op::kReduceMax, x, {dim}, true);
  if (masked)
    max = b.Where(b.Binary(Op::kEq, max, Scalar(-std::numeric_limits<double>::infinity())), Like(b, max, 0), max);
  Value e = b.Unary(Op::kExp, b.Sub(x, max));
  Value sum = b.Reduce(Op::kReduceSum, e, {dim}, true);
  if (masked) sum = b.Where(b.Binary(Op::kEq, sum, Scalar(0.0)), Like(b, sum, 1), sum);
  return b.Div(e, sum);
}

Value LogSoftmax(Builder& b, Value x, int64_t dim) {
  Value shifted = b.Sub(x, b.Reduce(Op::kReduceMax, x, {dim}, true));
  return b.Sub(shifted, b.Unary(Op::kLog, b.Reduce(Op::kReduceSum, b.Unary(Op::kExp, shifted), {dim}, true)));
}

// What is left of numbers without the first mean is exact only near it: elsewhere all of the same size are rounded the
// same way, and that adds up, to 1e-8 deviations. Where the mean is small, so is what its own rounding takes off.
Value NearerMean(Builder& b, Value x, const std::vector<int64_t>& dims, const Deviations& d) {
  if (!x || x.dtype() == d.mean.dtype()) return d.mean;
  Value sum = b.Cast(b.Reduce(Op::kReduceSum, x, dims, true), d.mean.dtype());
  Value plain = DivBySize(b, sum, CountOf(x, dims));
  Value small = b.Binary(Op::kLt, b.Mul(plain, sum), b.Binary(Op::kMul, d.squares, Scalar(0x1p-4)));
  return b.Where(small, plain, d.mean);
}

Deviations DeviationsOf(Builder& b, Value x, const std::vector<int64_t>& dims, DType wide) {
  if (dims.empty()) return {b.Cast(x, wide), b.Sub(x, x), Like(b, b.Cast(x, wide), 0)};
  Value first = b.Mean(x, dims, true), near = b.Sub(x, first);
  Value sum = b.Cast(b.Reduce(Op::kReduceSum, near, dims, true), wide);
  Value squares = b.Cast(b.Reduce(Op::kReduceSum, b.Mul(near, near), dims, true), wide);
  Value rest = DivBySize(b, sum, CountOf(x, dims)), excess = b.Mul(rest, sum);
  // Squares that overflow stay infinite, and rounding makes none negative.
  Value finite = b.Binary(Op::kLt, excess, Scalar(std::numeric_limits<double>::infinity()));
  excess = b.Where(finite, excess, Like(b, excess, 0));
  squares = b.Binary(Op::kMax, b.Sub(squares, excess), Scalar(0.0));
  return {b.Add(b.Cast(first, wide), rest), b.Sub(near, b.Cast(rest, x ? x.dtype() : wide)), squares};
}

Deviations DeviationsOf(Builder& b, Value x, const std::vector<int64_t>& dims) {
  return DeviationsOf(b, x, dims, x ? x.dtype() : DType::kF32);
}

Moments MeanAndVariance(Builder& b, Value x, const std::vector<int64_t>& dims, DType wide) {
  Deviations d = DeviationsOf(b, x, dims, wide);
  return {dims.empty() ? d.mean : NearerMean(b, x, dims, d), d.centered,
          dims.empty() ? d.squares : DivBySize(b, d.squares, CountOf(x, dims))};
}

Moments MeanAndVariance(Builder& b, Value x, const std::vector<int64_t>& dims) {
  return MeanAndVariance(b, x, dims, x ? x.dtype() : DType::kF32);
}

Expr CountOf(Value x, const std::vector<int64_t>& dims) {
  Expr count = 1;
  if (!x) return count;
  for (int64_t dim : dims) count = count * x.shape()[dim];
  return count;
}

ir::Attrs FromStart(int64_t dim) { return {{"dim", dim}, {"from_end", int64_t{0}}}; }

Value DivBySize(Builder& b, Value x, const Expr& size) {
  if (!x) return x;
  if (std::optional<int64_t> n = size.constant()) return b.Binary(Op::kDiv, x, Scalar(static_cast<double>(*n)));
  return b.Div(x, b.Cast(b.Size(size), x.dtype()));
}

Value Like(Builder& b, Value x, double value) {
  if (!x) return x;
  return b.Fill(OpContext::Number(value, x.dtype()), x.dtype(), x.shape());
}

Value AlongDim(Builder& b, Value vector, int rank, int64_t dim) {
  if (!vector) return vector;
  std::vector<Expr> shape(rank, Expr(1));
  shape[dim] = vector.type().NumElements();
  return b.Reshape(vector, std::move(shape));
}

double Lowest(DType dtype) {
  return ir::IsFloat(dtype) ? -std::numeric_limits<double>::infinity()
                            : static_cast<double>(std::get<int64_t>(LowestScalar(dtype)));
}

double Highest(DType dtype) {
  return ir::IsFloat(dtype) ? std::numeric_limits<double>::infinity()
                            : static_cast<double>(std::get<int64_t>(HighestScalar(dtype)));
}

Scalar LowestScalar(DType dtype) {
  if (ir::IsFloat(dtype)) return Scalar(-std::numeric_limits<double>::infinity());
  if (dtype == DType::kBool || dtype == DType::kU8) return Scalar(int64_t{0});
  return Scalar(std::numeric_limits<int64_t>::min() >> (64 - 8 * ir::DTypeSize(dtype)));
}

Scalar HighestScalar(DType dtype) {
  if (ir::IsFloat(dtype)) return Scalar(std::numeric_limits<double>::infinity());
  if (dtype == DType::kBool) return Scalar(int64_t{1});
  if (dtype == DType::kU8) return Scalar(int64_t{255});
  return Scalar(std::numeric_limits<int64_t>::max() >> (64 - 8 * ir::DTypeSize(dtype)));
}

}  // namespace preheat::decompose
