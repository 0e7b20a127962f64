#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_BATCH_KERNELS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_BATCH_KERNELS_H_

#include <cstdint>

#include "compiler/codegen/emitted_kernel.h"

namespace preheat::codegen {

// Pointers that one launch takes: its parameters are 4 KB at most.
inline constexpr int64_t kMostPointers = 480;

// A kernel (of emit_cuda.h, with `buffers` pointers) for `count` sets of buffers at once: row y of the grid takes set
// y. Its parameters are the sets' pointers one after another, then what the kernel takes.
EmittedKernel BatchKernels(const EmittedKernel& kernel, int64_t buffers, int64_t count);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_BATCH_KERNELS_H_
