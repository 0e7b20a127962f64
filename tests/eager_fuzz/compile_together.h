#ifndef PREHEAT_TESTS_EAGER_FUZZ_COMPILE_TOGETHER_H_
#define PREHEAT_TESTS_EAGER_FUZZ_COMPILE_TOGETHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/target.h"

namespace preheat::testing {

// Kernels of many programs as one source, which costs one start of the compiler instead of hundreds, and one shared
// object. The flags are those of every kernel, then `more`. Kernels of one symbol are equal and compiled once.
absl::StatusOr<std::string> CompileTogether(const std::vector<codegen::EmittedKernel>& kernels, const CpuTarget& target,
                                            const std::vector<std::string>& more);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_EAGER_FUZZ_COMPILE_TOGETHER_H_
