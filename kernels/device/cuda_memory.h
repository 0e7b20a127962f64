#ifndef PREHEAT_KERNELS_DEVICE_CUDA_MEMORY_H_
#define PREHEAT_KERNELS_DEVICE_CUDA_MEMORY_H_

#include <cstdint>

#include "kernels/device/cuda_driver.h"
#include "kernels/device/device.h"

namespace preheat::cuda {

// Where workspaces come from: the process's own allocator (torch's), so that both share what the GPU has; null: the
// driver. `allocate` gives null when there is not enough; memory is given back for use on the same stream.
struct MemorySource {
  void* (*allocate)(void* context, int64_t bytes, int device, Stream stream) = nullptr;
  void (*free)(void* context, void* memory) = nullptr;
  void* context = nullptr;
};
// For workspaces reserved from now on. Thread-safe.
void SetMemorySource(const MemorySource& source);

// The workspace of a stream, made when it is first asked for, kept for the life of the process. Thread-safe.
Workspace* WorkspaceOf(const Driver& driver, Context context, int ordinal, Stream stream);

}  // namespace preheat::cuda

#endif  // PREHEAT_KERNELS_DEVICE_CUDA_MEMORY_H_
