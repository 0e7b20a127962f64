#ifndef PREHEAT_KERNELS_DEVICE_KERNEL_ARGS_H_
#define PREHEAT_KERNELS_DEVICE_KERNEL_ARGS_H_

#include <cstdint>

namespace preheat {

// What a CPU kernel is called with: void kernel(const KernelArgs* args, int64_t begin, int64_t end).
// The emitter writes this struct into every source it emits (kernels include nothing), so the order of fields is part
// of the plan format: change it only with kPlanVersion.
struct KernelArgs {
  void* const* buffers;    // KernelStep.buffers, addresses of first elements
  const int64_t* scalars;  // KernelStep.scalars
  int32_t* error;          // a kernel stores n > 0 for error_sites[n - 1]; several may, any one is kept
  void* scratch;           // scratch_bytes of this thread's own, 64-byte aligned; contents are garbage
};
using KernelFunction = void (*)(const KernelArgs* args, int64_t begin, int64_t end);

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_KERNEL_ARGS_H_
