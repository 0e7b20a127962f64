#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_SCAN_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_SCAN_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// Whether a scan is worth a block of threads a line: lines are long, or too few to give every thread one.
bool ScansByBlocks(const ir::Node& node);

// A scan for a GPU (REQUIRES: the region is one that ScansByBlocks): a block goes through its line 1,024 elements at a
// time. Sums and products of f32 and narrower are kept in double. Fills `loops` with buffers, symbols and extent.
absl::StatusOr<CudaKernel> EmitScan(const schedule::Region& region, const StridesFn& strides_of,
                                    const ir::Ranges& sizes, Kernel& loops);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_SCAN_H_
