#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_ATTENTION_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/library/cuda/cudnn_graph.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// Makes checked attention, or its gradient, ready for the GPU of the current context: kernels/library/attention.h and
// attention_grad.h say what it computes, here for 16-bit floats, four dimensions (batch, heads, rows, width) and
// perhaps CAUSAL as the only mask. Keys and values may have fewer heads than queries, each for a group of them. Rows
// are contiguous and aligned to 16 bytes. The log sums are f32.
//
// The graphs are those that cuDNN's attention engines recognize: the product, scale, mask, softmax and second product
// forward; the gradient with the scores computed again from their log sums (its rows' sums of g * output, and dq in
// f32, stand in the scratch memory).
//
// FAILED_PRECONDITION "no_cudnn"; UNIMPLEMENTED "unsupported_library_call" for what no engine of cuDNN takes, and for a
// cuDNN before 9.10.
absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCudnnAttention(const CallSpec& call);

// What it would choose on a device that is described as cuDNN writes devices down (JSON), without one.
absl::StatusOr<cudnn::Choice> ChooseCudnnAttention(const CallSpec& call, absl::string_view device);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_ATTENTION_H_
