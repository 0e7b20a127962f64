#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_FORMULAS_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_FORMULAS_H_

#include <vector>

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// Formulas that several lowerings share. Operands are floats of their compute type (f32 or f64); passes that
// recognize an activation match exactly these.

Value Relu(Builder& b, Value x);             // max(x, 0)
Value Sigmoid(Builder& b, Value x);          // 1 / (1 + exp(-x))
Value Silu(Builder& b, Value x);             // x * sigmoid(x)
Value Gelu(Builder& b, Value x, bool tanh);  // x/2 * (1 + erf(x/sqrt 2)), or the tanh approximation
Value Softplus(Builder& b, Value x, double beta, double threshold);
Value Clamp(Builder& b, Value x, Value low, Value high);  // null: no bound; NaN stays

// Along one dimension, which stays: exp(x - max) / sum. `masked`: a row of only -inf gives zeros, not NaN.
Value Softmax(Builder& b, Value x, int64_t dim, bool masked = false);
Value LogSoftmax(Builder& b, Value x, int64_t dim);

// Over dims, which stay with size 1, in two passes: the mean, what is left of x without it, and the sum of its squares.
// The first pass's mean is off by its rounding, which is much for numbers far from 0: the second pass adds up what is
// left beside its squares, and all three are corrected by it. `wide`: the dtype of mean and squares and of what they
// are corrected by.
struct Deviations {
  Value mean, centered, squares;
};
Deviations DeviationsOf(Builder& b, Value x, const std::vector<int64_t>& dims, DType wide);
Deviations DeviationsOf(Builder& b, Value x, const std::vector<int64_t>& dims);  // all of x's dtype

struct Moments {
  Value mean, centered, variance;  // the mean of the squares
};
Moments MeanAndVariance(Builder& b, Value x, const std::vector<int64_t>& dims, DType wide);
Moments MeanAndVariance(Builder& b, Value x, const std::vector<int64_t>& dims);

// The number of elements along dims.
Expr CountOf(Value x, const std::vector<int64_t>& dims);
// x divided by a size.
Value DivBySize(Builder& b, Value x, const Expr& size);

// Of take, gather, scatter and put_rows for operators that refuse negative indices.
ir::Attrs FromStart(int64_t dim);

// Zeros, ones: a value of x's dtype and shape.
Value Like(Builder& b, Value x, double value);

// A vector, one element for each index along dimension `dim` of a tensor of that rank: [1, n, 1, 1].
Value AlongDim(Builder& b, Value vector, int rank, int64_t dim);

// The smallest and largest element of a dtype: -inf and inf for floats.
double Lowest(DType dtype);
double Highest(DType dtype);
Scalar LowestScalar(DType dtype);
Scalar HighestScalar(DType dtype);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_FORMULAS_H_
