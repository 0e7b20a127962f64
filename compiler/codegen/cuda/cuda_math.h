#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_MATH_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_MATH_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"

namespace preheat::codegen {

// The functions that emitted CUDA kernels call, under the names of codegen/cpu/math_functions.h: CUDA's own where the
// compiler brings them (NVRTC needs no header for expf), instructions for conversions, and the CPU's texts for
// integers. The text compiles by NVRTC and, with tests/emulator's header, by a host compiler.
// INVALID_ARGUMENT when there is no function of such a name.
absl::StatusOr<std::string> CudaMathSource(const std::set<std::string>& names);

// Definitions of those of g++'s builtins that `source` uses, for compilers that lack them. Put it first.
std::string BuiltinsFor(const std::string& source);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_MATH_H_
