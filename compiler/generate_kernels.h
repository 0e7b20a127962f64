#ifndef PREHEAT_COMPILER_GENERATE_KERNELS_H_
#define PREHEAT_COMPILER_GENERATE_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/schedule.h"
#include "compiler/codegen/target.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat {

// A kernel of the program with the loops it came from.
struct GeneratedKernel {
  codegen::Kernel loops;
  codegen::EmittedKernel code;
  schedule::RegionKind kind = schedule::RegionKind::kPointwise;
  codegen::CudaLaunch launch;  // of a CUDA kernel
};

// The kernel of a region; `schedule` says where it departs from the cost model.
absl::StatusOr<GeneratedKernel> GenerateRegion(const schedule::Region& region, const schedule::Layouts& layouts,
                                               const ir::Ranges& sizes, DeviceKind device,
                                               const codegen::Schedule& schedule = {});

// A kernel that copies a stored value into memory of another layout.
absl::StatusOr<GeneratedKernel> GenerateCopy(ir::Value value, const std::vector<ir::Expr>& strides,
                                             const schedule::Layouts& layouts, const ir::Ranges& sizes,
                                             DeviceKind device);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_GENERATE_KERNELS_H_
