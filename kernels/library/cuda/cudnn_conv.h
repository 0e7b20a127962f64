#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_CONV_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_CONV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/library/cuda/cudnn_graph.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// Makes a checked convolution or a gradient of one ready for the GPU of the current context, with cuDNN's graph
// interface: the first execution plan of its heuristics that needs no compiler and not too much workspace. Plans are
// shared by equal calls of the process. Fast where input, filter and result lie with channels last.
//
// The epilogues of a convolution may be a bias, a residual and a ReLU, in this order, as far as each is there.
//
// FAILED_PRECONDITION "no_cudnn"; UNIMPLEMENTED "unsupported_library_call" for what no engine of cuDNN takes.
absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCudnn(const CallSpec& call);

// What PrepareCudnn would choose on a device that is described as cuDNN writes devices down (JSON), without one.
absl::StatusOr<cudnn::Choice> ChooseCudnn(const CallSpec& call, absl::string_view device);

// Whether float32 convolutions may round their operands to TF32, as torch.backends.cudnn.allow_tf32 says; true at
// first. For calls prepared from now on.
void AllowTf32InConvolutions(bool allow);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_CONV_H_
