#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/target.h"

namespace preheat::codegen {

// NVIDIA's run-time compiler, opened when it is first asked for and never linked: what PREHEAT_NVRTC names, else what
// the dynamic linker finds, else those of a Python environment (VIRTUAL_ENV) or of /usr/local/cuda. No GPU is needed.

// "nvrtc 13.0". UNAVAILABLE "no_nvrtc" when there is none. Asked once per process.
absl::StatusOr<std::string> NvrtcVersion();

// Everything that decides about the bytes of a cubin but the source and the version: enters kernel keys.
std::vector<std::string> NvrtcFlags(const CudaTarget& target);

struct Cubin {
  std::string bytes;
  int registers = 0;        // a thread's
  int64_t spill_bytes = 0;  // stored to local memory because registers ran out
};

// Compiles one. INTERNAL "kernel_compile_failed" carries the compiler's words.
absl::StatusOr<Cubin> CompileCubin(const std::string& source, const std::vector<std::string>& flags);

// Compiles a kernel of no use: NVRTC's first takes 0.2 s longer.
absl::Status WarmNvrtc();

// Compiles sources side by side on `threads` threads, each with a process of NvrtcHelpers where there are any; cubins
// in the sources' order. Errors as CompileCubin's. `cancelled` (may be null) is looked at between sources.
absl::StatusOr<std::vector<Cubin>> CompileCubins(const std::vector<std::string>& sources, const CudaTarget& target,
                                                 int threads, const std::atomic<bool>* cancelled);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_H_
