#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/codegen/schedule.h"

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

// A size's parameter: no variable of a kernel has such a name.
inline std::string SizeName(const std::string& symbol) { return "size_" + symbol; }

// Elements a side of a block in which something is transposed.
inline constexpr int64_t kTransposeBlock = 64;

// The tiles that suit the emitter below.
Choices CudaChoices();

// Prints a kernel as CUDA C++:
//   extern "C" __global__ void symbol(buffers..., long symbols..., int* error, char* scratch, long extent)
// where every argument has eight bytes. Equal kernels give equal sources. Memory is read and written by vectors of 16
// bytes wherever sizes and strides are multiples of them; a kernel called with an address that is not aligned goes
// element by element. The forms (emitters.h):
//   flat         nothing is reduced: threads are dealt vectors
//   transposed   the same, but a load runs across the stores: blocks of 64 x 64 (or a schedule's) in shared memory
//   rows         a thread to a block an item; what several stages read stays in registers
//   columns      items side by side in memory: a vector of items a thread, the rows shared out down the block
// `schedule` says where a kernel departs from what its emitter chooses; what it cannot have is passed over.
absl::StatusOr<CudaKernel> EmitCuda(const Kernel& kernel, const Schedule& schedule = {});

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_H_
