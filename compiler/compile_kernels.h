#ifndef PREHEAT_COMPILER_COMPILE_KERNELS_H_
#define PREHEAT_COMPILER_COMPILE_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/emit_cpu.h"
#include "compiler/codegen/target.h"
#include "compiler/compile.h"

namespace preheat {

// Objects of these sources, from the kernel store where it has them, otherwise made by the host compiler, side by side, and
// published; linked into one shared object. Empty when there is no source.
absl::StatusOr<std::string> CompileKernels(const std::vector<codegen::EmittedKernel>& kernels, const CpuTarget& target,
                                           const CompileOptions& options);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_COMPILE_KERNELS_H_
