#ifndef PREHEAT_COMPILER_CODEGEN_EMITTED_KERNEL_H_
#define PREHEAT_COMPILER_CODEGEN_EMITTED_KERNEL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

struct EmittedKernel {
  std::string symbol;  // preheat_<ops>_<digest8>
  std::string source;  // freestanding C++ or CUDA C++: no includes, no library
};

// What stands in a source for the kernel's own name, which is made of the source's digest.
inline constexpr char kSymbol[] = "PREHEAT_KERNEL";

EmittedKernel NamedKernel(absl::string_view ops, const std::string& source);

// Up to four distinct operators of a kernel, in order: what people see in a profile.
std::string OpsName(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_EMITTED_KERNEL_H_
