#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_PREPARE_CUDA_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_PREPARE_CUDA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// As Prepare of providers.h, on a GPU: matrix products by cuBLASLt, convolutions and their gradients by cuDNN. Run
// enqueues on addresses.stream, in the current CUDA context.
absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCuda(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_PREPARE_CUDA_H_
