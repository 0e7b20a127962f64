#ifndef PREHEAT_COMPILER_CODEGEN_CPU_EMIT_NODE_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_EMIT_NODE_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/emit_cpu.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/codegen/target.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// On CUDA a thread takes an item; arguments are those of cuda/emit_cuda.h.
inline constexpr int kCudaNodeThreads = 32;  // a block

// The kernel of one node that is no expression over loops: scans, scatter, put_rows, sort (schedule/fuse.h,
// IsNodeKernel). Fills `loops` with what a caller needs to launch it: buffers, symbols, extent and work.
//
//   scans     one item a line along `dim`, in order; sums and products of f32 and narrower in double
//   scatter   one item a line along `dim`: a copy of x, then the updates in the index's order
//   put_rows  one item a column behind `dim`: a copy of x, then the rows in the index's order
//   sort      one item a line: a stable merge sort in the result's own memory
absl::StatusOr<EmittedKernel> EmitNode(const schedule::Region& region, const StridesFn& strides_of,
                                       const ir::Ranges& sizes, Kernel& loops, DeviceKind device = DeviceKind::kCpu);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_EMIT_NODE_H_
