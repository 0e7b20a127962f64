#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_CUBLASLT_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_CUBLASLT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// Makes a checked library call ready for a GPU: matrix products by cuBLASLt, opened at run time (PREHEAT_CUBLASLT, what
// the process has loaded, what the linker finds). Run enqueues on addresses.stream, in the current CUDA context.
//
// FAILED_PRECONDITION "no_cublaslt"; UNIMPLEMENTED "unsupported_library_call" for integers, operands without a dense
// dimension, epilogues and convolutions, which the compiler does not emit for a GPU.
absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCuda(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_CUBLASLT_H_
