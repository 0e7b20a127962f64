#ifndef PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_NODE_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_NODE_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// The CPU kernel of one node that is no expression over loops: scans, scatter, put_rows, sort (schedule/fuse.h,
// IsNodeKernel; what an item is: node_loops.h). Fills `loops` with what a caller needs to launch it: buffers, symbols,
// extent and work. Arguments are those of emit_cpu.h.
absl::StatusOr<EmittedKernel> EmitCpuNode(const schedule::Region& region, const StridesFn& strides_of,
                                          const ir::Ranges& sizes, Kernel& loops);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_NODE_H_
