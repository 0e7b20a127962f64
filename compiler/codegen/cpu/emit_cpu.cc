#include "compiler/codegen/cpu/emit_cpu.h"

#include "compiler/codegen/cpu/emitters.h"

namespace preheat::codegen {

absl::StatusOr<EmittedKernel> EmitCpu(const Kernel& kernel) {
  return kernel.tile_loop ? EmitTiles(kernel) : EmitCpuRows(kernel);
}

}  // namespace preheat::codegen
