#ifndef PREHEAT_COMPILER_CODEGEN_TARGET_H_
#define PREHEAT_COMPILER_CODEGEN_TARGET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat {

enum class DeviceKind { kCpu, kCuda };

// By the target's first word alone: what is wrong with the rest, Parse...Target say.
DeviceKind DeviceKindOf(absl::string_view target);

// A canonical CPU target "cpu:<level>[+<feature>]...", as kernels/device/cpu_features.h writes a host's.
struct CpuTarget {
  std::string level;                  // "x86-64-v2" to "x86-64-v4"
  std::vector<std::string> features;  // "avx512_bf16", "avx512_vnni"

  // What the host compiler is told: -march=x86-64-v4 -mavx512bf16 ... Never -march=native.
  std::vector<std::string> CompilerFlags() const;
};

// INVALID_ARGUMENT "unsupported_target" with the forms that would have been right.
absl::StatusOr<CpuTarget> ParseCpuTarget(absl::string_view target);

// A canonical CUDA target "cuda:sm_<n>": the compute capability that code is made for.
struct CudaTarget {
  int sm = 90;

  // What the compiler is told: "sm_90a" where instructions of that one architecture are worth having.
  std::string Architecture() const;
};

// INVALID_ARGUMENT "unsupported_target" with the forms that would have been right.
absl::StatusOr<CudaTarget> ParseCudaTarget(absl::string_view target);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_CODEGEN_TARGET_H_
