#ifndef PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// Prints a kernel as C++ for the host compiler: void symbol(const Args*, long begin, long end), where Args is
// kernels/device/kernel_args.h. Equal kernels give equal sources, whatever program they come from. The forms
// (emitters.h):
//   rows    an item after the other; the last loop of a stage is the vector loop
//   tiles   an item is a tile of neighbours, which every vector loop runs along
absl::StatusOr<EmittedKernel> EmitCpu(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_H_
