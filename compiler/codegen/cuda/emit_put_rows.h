#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_PUT_ROWS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_PUT_ROWS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// put_rows for a GPU (REQUIRES: the region is that one node). A block owns some rows of the result, in some columns: it
// reads all of the index, lists the places that name its rows, in order, and applies their rows of `src` to what it
// keeps in shared memory. So no two blocks write the same element, every result is the same in each run, and sums of
// 16-bit floats are rounded once. Fills `loops` with buffers, symbols and extent.
absl::StatusOr<CudaKernel> EmitPutRows(const schedule::Region& region, const StridesFn& strides_of,
                                       const ir::Ranges& sizes, Kernel& loops);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_EMIT_PUT_ROWS_H_
