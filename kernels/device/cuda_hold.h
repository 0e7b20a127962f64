#ifndef PREHEAT_KERNELS_DEVICE_CUDA_HOLD_H_
#define PREHEAT_KERNELS_DEVICE_CUDA_HOLD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/cuda_driver.h"
#include "kernels/device/device.h"

namespace preheat::cuda {

// Device::HoldBack by a function of the host's in the stream. REQUIRES: the context is current.
absl::StatusOr<std::unique_ptr<Hold>> HoldBack(const Driver& driver, StreamHandle stream);

}  // namespace preheat::cuda

#endif  // PREHEAT_KERNELS_DEVICE_CUDA_HOLD_H_
