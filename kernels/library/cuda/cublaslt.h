#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_CUBLASLT_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_CUBLASLT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// Makes a checked matrix product ready for a GPU by cuBLASLt, opened at run time (PREHEAT_CUBLASLT, what the process
// has loaded, what the linker finds). Run enqueues on addresses.stream, in the current CUDA context.
//
// Its epilogues may be a bias, a residual and a ReLU or tanh-GELU, in this order, as far as each is there.
//
// FAILED_PRECONDITION "no_cublaslt"; UNIMPLEMENTED "unsupported_library_call" for integers, operands without a dense
// dimension and other epilogues, which the compiler does not emit for a GPU.
absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCublasLt(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_CUBLASLT_H_
