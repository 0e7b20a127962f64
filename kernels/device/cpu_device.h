#ifndef PREHEAT_KERNELS_DEVICE_CPU_DEVICE_H_
#define PREHEAT_KERNELS_DEVICE_CPU_DEVICE_H_

#include <memory>
#include <string>

#include "kernels/device/device.h"

namespace preheat {

// The host: code is shared objects (code_file.h), launches are ParallelRanges and are done when they return.
std::unique_ptr<Device> NewCpuDevice(std::string cache_dir);

// Memory aligned to 64 bytes (large blocks: to huge pages, and asking for them); null when there is none.
void* AllocateAligned(int64_t bytes);
void FreeAligned(void* memory);

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_CPU_DEVICE_H_
