#ifndef PREHEAT_KERNELS_DEVICE_CUDA_DEVICE_H_
#define PREHEAT_KERNELS_DEVICE_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/device/device.h"

namespace preheat {

// A GPU by the CUDA driver, in its primary context (torch's). The device is the one whose context is current on the
// calling thread, else number 0. `target` is the plan's, "cuda:sm_90": FAILED_PRECONDITION "unsupported_gpu" when this
// GPU does not run it, "no_cuda_driver" when there is none.
//
// A launch's arguments are its buffers, its scalars, the error word, the scratch memory and the extent, eight bytes
// each.
absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(absl::string_view target);

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_CUDA_DEVICE_H_
