#include <utility>

#include "compiler/support/status_macros.h"
#include "kernels/library/cuda/attention_problem.h"

namespace preheat::library {
namespace {

using cudnn::Graph;

// Writes the graph of a problem down.
class Describer {
 public:
  Describer(const AttentionProblem& problem, Graph& graph) : p_(problem), g_(graph) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(q_, g_.InMemory(kQ, p_.q, p_.type));
    ASSIGN_OR_RETURN(k_, g_.InMemory(kK, p_.k, p_.type));
    ASSIGN_OR_RETURN(scale_, g_.Number(kScale));
    return p_.gradient ? Backward() : Forward();
  }

 private:
  using Tensor = Graph::Tensor;

  absl::StatusOr<Tensor> Apply(cudnn::PointwiseMode mode, Tensor x, Tensor other, const TensorSpec& like) {
    ASSIGN_OR_RETURN(Tensor y, g_.Virtual(like, cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(mode, x, y, {.other = other}));
    return y;
  }
  absl::StatusOr<Tensor> Sum(cudnn::ReductionMode mode, Tensor x) {
    ASSIGN_OR_RETURN(Tensor y, g_.Virtual(p_.RowSums(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.Reduce(mode, x, y));
    return y;
  }

  // q * k * scale + mask.
  absl::StatusOr<Tensor> Scores() {
    ASSIGN_OR_RETURN(Tensor products, g_.Virtual(p_.Scores(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.MatMul(q_, k_, products));
    ASSIGN_OR_RETURN(Tensor scores, Apply(cudnn::kMul, products, scale_, p_.Scores()));
    if (!p_.mask) return scores;
    ASSIGN_OR_RETURN(Tensor mask, g_.InMemory(kMask, *p_.mask, p_.type));
    return Apply(cudnn::kAdd, scores, mask, p_.Scores());
  }

  // Row i sees the columns up to i.
  absl::StatusOr<Tensor> Masked(Tensor scores) {
    if (!p_.causal) return scores;
    ASSIGN_OR_RETURN(Tensor row, g_.Virtual(p_.Scores(), cudnn::kInt32));
    ASSIGN_OR_RETURN(Tensor column, g_.Virtual(p_.Scores(), cudnn::kInt32));
    ASSIGN_OR_RETURN(Tensor sees, g_.Virtual(p_.Scores(), cudnn::kBool));
    ASSIGN_OR_RETURN(Tensor hidden, g_.Number(kHidden));
    ASSIGN_OR_RETURN(Tensor masked, g_.Virtual(p_.Scores(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kIndex, scores, row, {.axis = 2}));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kIndex, scores, column, {.axis = 3}));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kGreaterOrEqual, row, sees, {.other = column, .compute = cudnn::kBool}));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kSelect, scores, masked, {.other = hidden, .condition = sees}));
    return masked;
  }

  absl::Status Forward() {
    ASSIGN_OR_RETURN(Tensor scores, Scores());
    ASSIGN_OR_RETURN(scores, Masked(scores));
    ASSIGN_OR_RETURN(Tensor max, Sum(cudnn::kMax, scores));
    ASSIGN_OR_RETURN(Tensor below, Apply(cudnn::kSub, scores, max, p_.Scores()));
    ASSIGN_OR_RETURN(Tensor powers, Apply(cudnn::kExp, below, nullptr, p_.Scores()));
    ASSIGN_OR_RETURN(Tensor sum, Sum(cudnn::kSum, powers));
    // Engines know the softmax by its log sums, wanted or not.
    ASSIGN_OR_RETURN(Tensor log, Apply(cudnn::kLog, sum, nullptr, p_.RowSums()));
    ASSIGN_OR_RETURN(Tensor log_sums, p_.has_log_sums ? g_.InMemory(kLogSums, p_.log_sums, cudnn::kFloat)
                                                      : g_.Virtual(p_.RowSums(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kAdd, max, log_sums, {.other = log}));
    ASSIGN_OR_RETURN(Tensor weights, g_.Virtual(p_.Scores(), p_.type));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kDiv, powers, weights, {.other = sum}));
    ASSIGN_OR_RETURN(Tensor v, g_.InMemory(kV, p_.v, p_.type));
    ASSIGN_OR_RETURN(Tensor output, g_.InMemory(kOutput, p_.output, p_.type));
    return g_.MatMul(weights, v, output);
  }

  absl::Status Backward() {
    ASSIGN_OR_RETURN(gradient_, g_.InMemory(kGradient, p_.grad, p_.type));
    ASSIGN_OR_RETURN(Tensor dots, Dots());
    ASSIGN_OR_RETURN(Tensor scores, Scores());
    ASSIGN_OR_RETURN(Tensor log_sums, g_.InMemory(kLogSums, p_.log_sums, cudnn::kFloat));
    ASSIGN_OR_RETURN(scores, Apply(cudnn::kSub, scores, log_sums, p_.Scores()));
    ASSIGN_OR_RETURN(scores, Masked(scores));
    ASSIGN_OR_RETURN(Tensor weights, Apply(cudnn::kExp, scores, nullptr, p_.Scores()));
    RETURN_IF_ERROR(Transposed(weights, gradient_, kGradV, p_.grad_v));
    ASSIGN_OR_RETURN(Tensor slopes, Slopes(weights, dots));
    RETURN_IF_ERROR(Transposed(slopes, q_, kGradK, p_.grad_k));
    return GradientOfQ(slopes);
  }

  // The rows' sums of gradient * output, in memory.
  absl::StatusOr<Tensor> Dots() {
    TensorSpec like = p_.output;
    like.strides.clear();
    ASSIGN_OR_RETURN(Tensor output, g_.InMemory(kOutput, p_.output, p_.type));
    ASSIGN_OR_RETURN(Tensor terms, Apply(cudnn::kMul, gradient_, output, like));
    ASSIGN_OR_RETURN(Tensor sums, Sum(cudnn::kSum, terms));
    ASSIGN_OR_RETURN(Tensor one, g_.Number(kOne));
    TensorSpec dense = p_.RowSums();
    dense.strides = {p_.heads() * p_.rows(), p_.rows(), 1, 1};
    ASSIGN_OR_RETURN(Tensor dots, g_.InMemory(kDots, dense, cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kMul, sums, dots, {.other = one}));
    return dots;
  }

  // weights * (gradient v' - dots) * scale.
  absl::StatusOr<Tensor> Slopes(Tensor weights, Tensor dots) {
    TensorSpec swapped = p_.v;
    std::swap(swapped.sizes[2], swapped.sizes[3]), std::swap(swapped.strides[2], swapped.strides[3]);
    ASSIGN_OR_RETURN(Tensor v, g_.InMemory(kV, swapped, p_.type));
    ASSIGN_OR_RETURN(Tensor now, g_.Virtual(p_.Scores(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.MatMul(gradient_, v, now));
    ASSIGN_OR_RETURN(now, Apply(cudnn::kSub, now, dots, p_.Scores()));
    ASSIGN_OR_RETURN(now, Apply(cudnn::kMul, now, weights, p_.Scores()));
    return Apply(cudnn::kMul, now, scale_, p_.Scores());
  }

  // matrix' * right, into a result with its heads or, summed, with fewer.
  absl::Status Transposed(Tensor matrix, Tensor right, AttentionUid uid, const TensorSpec& result) {
    TensorSpec swapped = p_.Scores();
    std::swap(swapped.sizes[2], swapped.sizes[3]);
    const int64_t m = p_.rows(), n = p_.columns();
    swapped.strides = {p_.heads() * m * n, m * n, 1, n};
    ASSIGN_OR_RETURN(Tensor turned, g_.Virtual(swapped, p_.type));
    RETURN_IF_ERROR(g_.Reshape(matrix, turned));
    ASSIGN_OR_RETURN(Tensor to, g_.InMemory(uid, result, p_.type));
    if (result.sizes[1] == p_.heads()) return g_.MatMul(turned, right, to);
    TensorSpec all{0, result.sizes, {}};
    all.sizes[1] = p_.heads();
    ASSIGN_OR_RETURN(Tensor each, g_.Virtual(all, p_.type));
    RETURN_IF_ERROR(g_.MatMul(turned, right, each));
    return g_.Reduce(cudnn::kSum, each, to);
  }

  absl::Status GradientOfQ(Tensor slopes) {
    TensorSpec keys = p_.k;
    std::swap(keys.sizes[2], keys.sizes[3]), std::swap(keys.strides[2], keys.strides[3]);
    ASSIGN_OR_RETURN(Tensor turned, g_.Virtual(keys, p_.type));
    RETURN_IF_ERROR(g_.Reshape(k_, turned));
    TensorSpec dense{0, p_.q.sizes, {0, p_.rows() * p_.q.sizes[3], p_.q.sizes[3], 1}};
    dense.strides[0] = p_.heads() * dense.strides[1];
    ASSIGN_OR_RETURN(Tensor wide, g_.InMemory(kWideGradQ, dense, cudnn::kFloat));
    RETURN_IF_ERROR(g_.MatMul(slopes, turned, wide));
    ASSIGN_OR_RETURN(Tensor to, g_.InMemory(kGradQ, p_.grad_q, p_.type));
    return g_.Pointwise(cudnn::kIdentity, wide, to, {});
  }

  const AttentionProblem& p_;
  Graph& g_;
  Tensor q_ = nullptr, k_ = nullptr, scale_ = nullptr, gradient_ = nullptr;
};

}  // namespace

absl::Status DescribeAttention(const AttentionProblem& problem, Graph& graph) {
  return Describer(problem, graph).Run();
}

}  // namespace preheat::library
