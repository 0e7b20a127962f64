#include "compiler/generate_kernels.h"

#include <utility>

#include "compiler/codegen/cpu/emit_cpu.h"
#include "compiler/codegen/cpu/emit_cpu_node.h"
#include "compiler/codegen/cuda/emit_cuda_node.h"
#include "compiler/codegen/in_place.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

codegen::Choices ChoicesFor(DeviceKind device) {
  return device == DeviceKind::kCuda ? codegen::CudaChoices() : codegen::Choices();
}

void Take(codegen::CudaKernel emitted, GeneratedKernel& kernel) {
  kernel.code = std::move(emitted.code);
  kernel.launch = std::move(emitted.launch);
}

absl::Status Emit(DeviceKind device, GeneratedKernel& kernel) {
  if (device == DeviceKind::kCpu) {
    kernel.loops.in_place = codegen::InPlacePairs(kernel.loops);
    ASSIGN_OR_RETURN(kernel.code, codegen::EmitCpu(kernel.loops));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(codegen::CudaKernel emitted, codegen::EmitCuda(kernel.loops));
  Take(std::move(emitted), kernel);
  return absl::OkStatus();
}

absl::Status EmitNode(const schedule::Region& region, const codegen::StridesFn& strides_of, const ir::Ranges& sizes,
                      DeviceKind device, GeneratedKernel& kernel) {
  if (device == DeviceKind::kCpu) {
    ASSIGN_OR_RETURN(kernel.code, codegen::EmitCpuNode(region, strides_of, sizes, kernel.loops));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(codegen::CudaKernel emitted, codegen::EmitCudaNode(region, strides_of, sizes, kernel.loops));
  Take(std::move(emitted), kernel);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateRegion(const schedule::Region& region, const schedule::Layouts& layouts,
                                               const ir::Ranges& sizes, DeviceKind device,
                                               const codegen::Schedule& schedule) {
  GeneratedKernel kernel;
  kernel.kind = region.kind;
  auto strides_of = [&](ir::Value value) { return layouts.StridesOf(value); };
  if (region.kind == schedule::RegionKind::kNode) {
    RETURN_IF_ERROR(EmitNode(region, strides_of, sizes, device, kernel));
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
