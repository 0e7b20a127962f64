#include "compiler/generate_kernels.h"

#include <utility>

#include "compiler/codegen/cpu/emit_node.h"
#include "compiler/codegen/cuda/emit_put_rows.h"
#include "compiler/codegen/cuda/emit_scan.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

codegen::Choices ChoicesFor(DeviceKind device) {
  return device == DeviceKind::kCuda ? codegen::CudaChoices() : codegen::Choices();
}

absl::Status Emit(DeviceKind device, GeneratedKernel& kernel) {
  if (device == DeviceKind::kCpu) {
    ASSIGN_OR_RETURN(kernel.code, codegen::EmitCpu(kernel.loops));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(codegen::CudaKernel emitted, codegen::EmitCuda(kernel.loops));
  kernel.code = std::move(emitted.code);
  kernel.launch = std::move(emitted.launch);
  return absl::OkStatus();
}

// A thread an item; those that need scratch memory are few and take several items each.
codegen::CudaLaunch NodeLaunch(const codegen::Kernel& loops) {
  codegen::CudaLaunch launch;
  launch.threads_x = codegen::kCudaNodeThreads;
  launch.grid = ir::Expr::CeilDiv(loops.extent, ir::Expr(launch.threads_x));
  if (loops.scratch_bytes != ir::Expr(0)) launch.grid = ir::Expr::Min(launch.grid, ir::Expr(256));
  launch.scratch_bytes = loops.scratch_bytes * ir::Expr(launch.threads_x);
  return launch;
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateRegion(const schedule::Region& region, const schedule::Layouts& layouts,
                                               const ir::Ranges& sizes, DeviceKind device,
                                               const codegen::Schedule& schedule) {
  GeneratedKernel kernel;
  kernel.kind = region.kind;
  auto strides_of = [&](ir::Value value) { return layouts.StridesOf(value); };
  const ir::Node& node = *region.outputs[0].node;
  const bool rows = node.op() == ir::Op::kPutRows;
  if (device == DeviceKind::kCuda && (rows || codegen::ScansByBlocks(node))) {
    const auto emit = rows ? codegen::EmitPutRows : codegen::EmitScan;
    ASSIGN_OR_RETURN(codegen::CudaKernel emitted, emit(region, strides_of, sizes, kernel.loops));
    kernel.code = std::move(emitted.code);
    kernel.launch = std::move(emitted.launch);
    return kernel;
  }
  if (region.kind == schedule::RegionKind::kNode) {
    ASSIGN_OR_RETURN(kernel.code, codegen::EmitNode(region, strides_of, sizes, kernel.loops, device));
    if (device == DeviceKind::kCuda) kernel.launch = NodeLaunch(kernel.loops);
    return kernel;
  }
  std::vector<codegen::Target> targets;
  for (ir::Value value : region.outputs) targets.push_back({value, layouts.StridesOf(value)});
  ASSIGN_OR_RETURN(kernel.loops, codegen::LowerRegion(region, targets, strides_of, sizes,
                                                      codegen::WithSchedule(ChoicesFor(device), schedule)));
  RETURN_IF_ERROR(Emit(device, kernel));
  return kernel;
}

absl::StatusOr<GeneratedKernel> GenerateCopy(ir::Value value, const std::vector<ir::Expr>& strides,
                                             const schedule::Layouts& layouts, const ir::Ranges& sizes,
                                             DeviceKind device) {
  schedule::Region region;
  region.outputs = {value};
  region.inputs = {value};
  GeneratedKernel kernel;
  auto strides_of = [&](ir::Value v) { return layouts.StridesOf(v); };
  ASSIGN_OR_RETURN(kernel.loops,
                   codegen::LowerRegion(region, {{value, strides}}, strides_of, sizes, ChoicesFor(device), true));
  RETURN_IF_ERROR(Emit(device, kernel));
  return kernel;
}

}  // namespace preheat
