#include "compiler/generate_kernels.h"

#include <algorithm>
#include <utility>

#include "compiler/codegen/cpu/emit_cpu.h"
#include "compiler/codegen/cpu/emit_cpu_node.h"
#include "compiler/codegen/cuda/emit_cuda_node.h"
#include "compiler/codegen/in_place.h"
#include "compiler/codegen/kernel_cost.h"
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

absl::Status Emit(DeviceKind device, GeneratedKernel& kernel, const codegen::Schedule& schedule = {}) {
  if (device == DeviceKind::kCpu) {
    kernel.loops.in_place = codegen::InPlacePairs(kernel.loops);
    ASSIGN_OR_RETURN(kernel.code, codegen::EmitCpu(kernel.loops));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(codegen::CudaKernel emitted, codegen::EmitCuda(kernel.loops, schedule));
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

constexpr int kNarrow = 256, kWide = 512;  // bits

// Wide vectors are what targets that have them prefer anyway.
void ChooseWidth(codegen::Kernel& kernel) {
  if (kernel.width == 0 && codegen::FitsNarrowVectors(kernel)) kernel.width = kNarrow;
  if (kernel.width == kWide) kernel.width = 0;
}

constexpr int kLeastTile = 64;     // columns: four cache lines of f32
constexpr int kSmallTile = 128;    // whose sums a core holds in registers and the nearest cache
constexpr double kSmall = 50'000;  // nanoseconds: all that is read lies in a cache; more is streamed in longer pieces

// How long the tiles should be of a kernel that reduces along the other dimension; as long as they are, or shorter.
int TileOf(const codegen::Kernel& kernel) {
  const auto extent = kernel.extent.constant();
  const auto item = codegen::ItemNanoseconds(kernel);
  if (kernel.accumulators.empty() || !extent || !item) return kernel.tile;
  const double all = static_cast<double>(*extent) * *item;
  // More threads would be worth their while than there are tiles to give them.
  const bool few = *item > codegen::kWorthAThread && all >= 2 * codegen::kWorthAThread;
  const int tile = all < kSmall ? std::min(kernel.tile, kSmallTile) : kernel.tile;
  return few ? std::max(kLeastTile, std::min(tile, kernel.tile / 2 / kLeastTile * kLeastTile)) : tile;
}

absl::StatusOr<codegen::Kernel> LowerForCpu(const schedule::Region& region, const std::vector<codegen::Target>& targets,
                                            const codegen::StridesFn& strides_of, const ir::Ranges& sizes,
                                            codegen::Choices choices, const codegen::Schedule& schedule) {
  ASSIGN_OR_RETURN(codegen::Kernel kernel, codegen::LowerRegion(region, targets, strides_of, sizes, choices));
  while (schedule.count("tile") == 0 && kernel.tile_loop && TileOf(kernel) < kernel.tile) {
    choices.tile = TileOf(kernel);
    ASSIGN_OR_RETURN(kernel, codegen::LowerRegion(region, targets, strides_of, sizes, choices));
  }
  ChooseWidth(kernel);
  return kernel;
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
  const codegen::Choices choices = codegen::WithSchedule(ChoicesFor(device), schedule);
  ASSIGN_OR_RETURN(kernel.loops, device == DeviceKind::kCpu
                                     ? LowerForCpu(region, targets, strides_of, sizes, choices, schedule)
                                     : codegen::LowerRegion(region, targets, strides_of, sizes, choices));
  RETURN_IF_ERROR(Emit(device, kernel, schedule));
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
