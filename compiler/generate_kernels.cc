#include "compiler/generate_kernels.h"

#include <utility>

#include "compiler/codegen/cpu/emit_node.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/support/status_macros.h"

namespace preheat {

absl::StatusOr<GeneratedKernel> GenerateRegion(const schedule::Region& region, const schedule::Layouts& layouts,
                                               const ir::Ranges& sizes) {
  GeneratedKernel kernel;
  kernel.kind = region.kind;
  auto strides_of = [&](ir::Value value) { return layouts.StridesOf(value); };
  if (region.kind == schedule::RegionKind::kNode) {
    ASSIGN_OR_RETURN(kernel.code, codegen::EmitNode(region, strides_of, sizes, kernel.loops));
    return kernel;
  }
  std::vector<codegen::Target> targets;
  for (ir::Value value : region.outputs) targets.push_back({value, layouts.StridesOf(value)});
  ASSIGN_OR_RETURN(kernel.loops, codegen::LowerRegion(region, targets, strides_of, sizes, codegen::Choices()));
  ASSIGN_OR_RETURN(kernel.code, codegen::EmitCpu(kernel.loops));
  return kernel;
}

absl::StatusOr<GeneratedKernel> GenerateCopy(ir::Value value, const std::vector<ir::Expr>& strides,
                                             const schedule::Layouts& layouts, const ir::Ranges& sizes) {
  schedule::Region region;
  region.outputs = {value};
  region.inputs = {value};
  GeneratedKernel kernel;
  auto strides_of = [&](ir::Value v) { return layouts.StridesOf(v); };
  ASSIGN_OR_RETURN(kernel.loops, codegen::LowerRegion(region, {{value, strides}}, strides_of, sizes, codegen::Choices(), true));
  ASSIGN_OR_RETURN(kernel.code, codegen::EmitCpu(kernel.loops));
  return kernel;
}

}  // namespace preheat
