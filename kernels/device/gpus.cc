#include "kernels/device/gpus.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/support/error.h"
#include "kernels/device/cuda_driver.h"

namespace preheat {
namespace {

std::string Text(const cuda::DeviceUuid& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", uuid.bytes[i]);
  }
  return text;
}

Gpu Describe(const cuda::Driver& driver, int device) {
  Gpu gpu;
  std::array<char, 128> name = {};
  driver.DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device);
  gpu.name = name.data();
  int major = 0, minor = 0;
  driver.DeviceGetAttribute(&major, cuda::kComputeCapabilityMajor, device);
  driver.DeviceGetAttribute(&minor, cuda::kComputeCapabilityMinor, device);
  gpu.target = absl::StrCat("cuda:sm_", major, minor);
  cuda::DeviceUuid uuid = {};
  if (driver.DeviceGetUuid(&uuid, device) == 0) gpu.uuid = Text(uuid);
  driver.DeviceGetAttribute(&gpu.multiprocessors, cuda::kMultiprocessors, device);
  driver.DeviceGetAttribute(&gpu.memory_clock_khz, cuda::kMemoryClock, device);
  return gpu;
}

// The part of the management library's interface that is used here; results are 0 when all went well.
struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryVersion = sizeof(Memory) | (2u << 24);
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct Nvml {
  int (*init)();
  int (*by_uuid)(const char* uuid, void** device);
  int (*memory)(void* device, Memory*);
  int (*utilization)(void* device, Utilization*);
};

// Null without.
const Nvml* OpenNvml() {
  static const Nvml* const opened = []() -> const Nvml* {
    const char* named = std::getenv("PREHEAT_NVML");
    void* library = dlopen(named != nullptr && *named != 0 ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    auto* nvml = new Nvml;
    bool found = true;
    const auto find = [&](const char* name, auto* function) {
      *reinterpret_cast<void**>(function) = dlsym(library, name);
      found = found && *reinterpret_cast<void**>(function) != nullptr;
    };
    find("nvmlInit_v2", &nvml->init);
    find("nvmlDeviceGetHandleByUUID", &nvml->by_uuid);
    find("nvmlDeviceGetMemoryInfo_v2", &nvml->memory);
    find("nvmlDeviceGetUtilizationRates", &nvml->utilization);
    return found && nvml->init() == 0 ? nvml : nullptr;
  }();
  return opened;
}

}  // namespace

std::string Gpu::Model() const {
  return absl::StrCat(name, ", ", multiprocessors, " multiprocessors, memory at ", memory_clock_khz / 1000, " MHz");
}

std::vector<Gpu> Gpus() {
  std::vector<Gpu> gpus;
  const absl::StatusOr<const cuda::Driver*> driver = cuda::OpenDriver();
  int count = 0;
  if (!driver.ok() || (*driver)->DeviceGetCount(&count) != 0) return gpus;
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if ((*driver)->DeviceGet(&device, i) == 0) gpus.push_back(Describe(**driver, device));
  }
  return gpus;
}

std::string ModelOfCurrentGpu() {
  const absl::StatusOr<const cuda::Driver*> driver = cuda::OpenDriver();
  int device = 0;
  if (!driver.ok() || (*driver)->CtxGetDevice(&device) != 0) return "";
  return Describe(**driver, device).Model();
}

absl::StatusOr<GpuUse> UseOf(const Gpu& gpu) {
  const Nvml* nvml = OpenNvml();
  void* device = nullptr;
  Memory memory = {.version = kMemoryVersion, .total = 0, .reserved = 0, .free = 0, .used = 0};
  Utilization utilization = {};
  if (nvml == nullptr || nvml->by_uuid(gpu.uuid.c_str(), &device) != 0 || nvml->memory(device, &memory) != 0 ||
      nvml->utilization(device, &utilization) != 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.kind = "no_nvml",
                      .message = absl::StrCat("what others use of ", gpu.name, " cannot be told"),
                      .where = gpu.uuid,
                      .fix = "let libnvidia-ml.so.1 be found, or set tune_when_busy"});
  }
  return GpuUse{static_cast<int64_t>(memory.used), static_cast<int>(utilization.gpu)};
}

}  // namespace preheat
