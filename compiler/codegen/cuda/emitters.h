#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_EMITTERS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_EMITTERS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/schedule.h"

namespace preheat::codegen {

// The ways to lay a kernel's loops over blocks and threads; emit_cuda.cc chooses among them.

// Threads are dealt the points of all loops. REQUIRES: one stage at most, which reduces nothing.
absl::StatusOr<CudaKernel> EmitFlat(const Kernel& kernel, const Schedule& schedule);

// Threads of a block, a warp or a part of one share an item's stages.
absl::StatusOr<CudaKernel> EmitRows(const Kernel& kernel, const Schedule& schedule);

// A thread has a vector of neighbouring items along `tile`, which is the kernel's tile loop or one of its outer loops;
// `outer` are all others. Threads along y share the stages' loops.
absl::StatusOr<CudaKernel> EmitColumns(const Kernel& kernel, const Schedule& schedule, const Loop& tile,
                                       const std::vector<Loop>& outer);

// Blocks of a stage of two loops whose loads run along the first and whose stores run along the second, or the
// reverse: through shared memory. UNIMPLEMENTED when there is no such load.
absl::StatusOr<CudaKernel> EmitTransposed(const Kernel& kernel, const Schedule& schedule);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_EMITTERS_H_
