#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_NODE_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_NODE_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// The CUDA kernel of one node that is no expression over loops (schedule/fuse.h, IsNodeKernel). Fills `loops` with what
// a caller needs to launch it: buffers, symbols, extent and work. Arguments are those of emit_cuda.h. The forms:
//   put_rows     blocks keep rows in shared memory (emit_put_rows.h)
//   long scans   blocks share a line (emit_scan.h)
//   others       a thread an item, whose loops are those of a CPU (node_loops.h)
absl::StatusOr<CudaKernel> EmitCudaNode(const schedule::Region& region, const StridesFn& strides_of,
                                        const ir::Ranges& sizes, Kernel& loops);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_CUDA_NODE_H_
