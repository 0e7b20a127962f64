#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_ATTENTION_PROBLEM_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/library/call.h"
#include "kernels/library/cuda/cudnn_graph.h"

namespace preheat::library {

// Uids of what has memory, and of numbers.
enum AttentionUid : int64_t {
  kQ = 1,
  kK,
  kV,
  kOutput,
  kLogSums,
  kGradient,
  kGradQ,
  kGradK,
  kGradV,
  kScale,
  kHidden,
  kMask,
  kOne,
  kDots,      // of the scratch memory: the rows' sums of gradient * output
  kWideGradQ  // and dq in f32
};

// What one call is to cuDNN.
struct AttentionProblem {
  bool gradient = false, causal = false;
  double scale = 1;
  cudnn::DataType type = cudnn::kBFloat16;
  TensorSpec q, k, v;  // k as [b, h, width, columns]
  TensorSpec output, log_sums;
  TensorSpec grad, grad_q, grad_k, grad_v;  // of a gradient
  std::optional<TensorSpec> mask;           // added to the scores
  bool has_log_sums = false;
  std::string stored;  // the plan that the artifact brings

  int64_t batch() const { return q.sizes[0]; }
  int64_t heads() const { return q.sizes[1]; }
  int64_t rows() const { return q.sizes[2]; }
  int64_t columns() const { return k.sizes[3]; }
  TensorSpec Scores() const { return {0, {batch(), heads(), rows(), columns()}, {}}; }
  TensorSpec RowSums() const { return {0, {batch(), heads(), rows(), 1}, {}}; }
  int64_t dots_bytes() const { return gradient ? (batch() * heads() * rows() * 4 + 255) / 256 * 256 : 0; }
  int64_t wide_bytes() const { return gradient ? (q.elements() * 4 + 255) / 256 * 256 : 0; }

  // All that a plan depends on, but for the library and the GPU.
  std::string Text() const;
};

// UNIMPLEMENTED "unsupported_library_call" for what cuDNN's engines do not take.
absl::StatusOr<AttentionProblem> AttentionProblemOf(const CallSpec& call);

// Writes the operations of a problem into a graph, in the form that cuDNN's engines recognize.
absl::Status DescribeAttention(const AttentionProblem& problem, cudnn::Graph& graph);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_ATTENTION_PROBLEM_H_
