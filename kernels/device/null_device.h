#ifndef PREHEAT_KERNELS_DEVICE_NULL_DEVICE_H_
#define PREHEAT_KERNELS_DEVICE_NULL_DEVICE_H_

#include <memory>

#include "kernels/device/device.h"

namespace preheat {

// A device that has memory and runs nothing: launches succeed and leave their buffers as they are. What a new backend
// starts from, and what plans are walked with where no device is.
std::unique_ptr<Device> NewNullDevice();

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_NULL_DEVICE_H_
