#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/emit_cpu.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/lower_region.h"

namespace preheat::codegen {

// How a kernel is launched: blocks along x, threads x by y, dynamic shared memory, and global scratch for each block.
struct CudaLaunch {
  ir::Expr grid;
  int64_t threads_x = 1, threads_y = 1;
  ir::Expr shared_bytes;
  ir::Expr scratch_bytes;  // of global memory, for each block
};

struct CudaKernel {
  EmittedKernel code;  // header-free CUDA C++
  CudaLaunch launch;
};

// The tiles that suit the emitter below.
Choices CudaChoices();

// Prints a kernel as CUDA C++:
//   extern "C" __global__ void symbol(buffers..., long symbols..., int* error, char* scratch, long extent)
// where every argument has eight bytes. Equal kernels give equal sources.
//   no stages        one block a tile, threads over its elements
//   row stages       one warp or one block an item; its threads share each stage's loops and combine accumulators by
//   shuffles and shared
//                    memory; values kept for later stages lie in shared memory, or in `scratch` when they are large
//   tiled stages     one block a tile of columns; threads along y share the rows
absl::StatusOr<CudaKernel> EmitCuda(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_H_
