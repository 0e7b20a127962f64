#ifndef PREHEAT_COMPILER_COMPILE_KERNELS_H_
#define PREHEAT_COMPILER_COMPILE_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/target.h"
#include "compiler/compile.h"

namespace preheat {

// Objects of these sources, from the kernel store where it has them, otherwise made by the host compiler, side by side,
// and published; linked into one shared object. Empty when there is no source.
absl::StatusOr<std::string> CompileKernels(const std::vector<codegen::EmittedKernel>& kernels, const CpuTarget& target,
                                           const CompileOptions& options);

// The same by NVRTC: one cubin a source, in their order. `notes`, one a source that NVRTC has compiled here: registers
// and spilled bytes, for people.
absl::StatusOr<std::vector<std::string>> CompileCudaKernels(const std::vector<codegen::EmittedKernel>& kernels,
                                                            const CudaTarget& target, const CompileOptions& options,
                                                            std::string* notes);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_COMPILE_KERNELS_H_
