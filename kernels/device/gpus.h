#ifndef PREHEAT_KERNELS_DEVICE_GPUS_H_
#define PREHEAT_KERNELS_DEVICE_GPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat {

// A GPU of this machine, as the driver counts those that CUDA_VISIBLE_DEVICES leaves.
struct Gpu {
  std::string name;    // "NVIDIA H200"
  std::string target;  // "cuda:sm_90"
  std::string uuid;    // "GPU-8f3c2a10-...", for what counts otherwise
  int multiprocessors = 0;
  int memory_clock_khz = 0;  // 0: the driver does not tell

  // What measurements on it are good for: "NVIDIA H200, 132 multiprocessors, memory at 3201 MHz".
  std::string Model() const;
};

// All of them; makes no context, so takes nothing of any. None where there is no driver.
std::vector<Gpu> Gpus();

// The model of the GPU whose context is current on this thread; "" without.
std::string ModelOfCurrentGpu();

// What everybody on the machine uses of a GPU now.
struct GpuUse {
  int64_t memory_bytes = 0;
  int percent = 0;  // of the last moments in which some kernel ran
};

// As NVIDIA's management library tells (PREHEAT_NVML, else libnvidia-ml.so.1). FAILED_PRECONDITION "no_nvml" where it
// does not: in some containers, for a part of a GPU.
absl::StatusOr<GpuUse> UseOf(const Gpu& gpu);

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_GPUS_H_
