#ifndef PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

struct EmittedKernel {
  std::string symbol;  // preheat_<ops>_<digest8>
  std::string source;  // freestanding C++: no includes, no library
};

// Prints a kernel as C++ for the host compiler: void symbol(const Args*, long begin, long end), where Args is
// kernels/device/kernel_args.h. Equal kernels give equal sources, whatever program they come from.
absl::StatusOr<EmittedKernel> EmitCpu(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_EMIT_CPU_H_
