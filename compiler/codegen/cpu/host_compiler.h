#ifndef PREHEAT_COMPILER_CODEGEN_CPU_HOST_COMPILER_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_HOST_COMPILER_H_

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/target.h"

namespace preheat::codegen {

// The C++ compiler of this machine, which turns emitted sources into code. g++, or what PREHEAT_CXX names.

// "g++ 12.2.0". UNAVAILABLE "no_host_compiler" when it cannot be started. Asked once per process.
absl::StatusOr<std::string> HostCompiler();

// Everything that decides about the bytes of an object but the source: enters kernel keys.
std::vector<std::string> KernelFlags(const CpuTarget& target);

// Compiles sources side by side, one process for each, `threads` at once; objects in the sources' order. INTERNAL
// "kernel_compile_failed" carries the compiler's words. `cancelled` (may be null) is looked at between processes.
absl::StatusOr<std::vector<std::string>> CompileObjects(const std::vector<std::string>& sources,
                                                        const CpuTarget& target, const std::string& work_dir,
                                                        int threads, const std::atomic<bool>* cancelled);

// Links objects into one shared object that needs no library and has no undefined symbol.
absl::StatusOr<std::string> LinkShared(const std::vector<std::string>& objects, const std::string& work_dir);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_HOST_COMPILER_H_
