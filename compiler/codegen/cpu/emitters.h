#ifndef PREHEAT_COMPILER_CODEGEN_CPU_EMITTERS_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_EMITTERS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// The forms of a CPU kernel; emit_cpu.cc chooses between them.

// An item after the other. REQUIRES: no tile_loop.
absl::StatusOr<EmittedKernel> EmitCpuRows(const Kernel& kernel);

// A tile of items at a time. REQUIRES: a tile_loop.
absl::StatusOr<EmittedKernel> EmitTiles(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_EMITTERS_H_
