#ifndef PREHEAT_KERNELS_DEVICE_CUDA_LAUNCH_H_
#define PREHEAT_KERNELS_DEVICE_CUDA_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/cuda_driver.h"
#include "kernels/device/device.h"

namespace preheat::cuda {

// A launch with its arguments in one piece of memory, as the driver takes them: buffers, scalars, error word, scratch,
// extent, eight bytes each. Does not move: it holds pointers into itself. REQUIRES: the context is current.
class PackedLaunch {
 public:
  explicit PackedLaunch(const Launch& launch);
  PackedLaunch(const PackedLaunch&) = delete;
  PackedLaunch& operator=(const PackedLaunch&) = delete;

  absl::Status Enqueue(const Driver& driver, StreamHandle stream);
  // As a graph takes it; valid as long as this.
  absl::StatusOr<const KernelNode*> Node(const Driver& driver);

 private:
  absl::Status AskForShared(const Driver& driver) const;

  static constexpr size_t kOnStack = 64;
  int64_t few_[kOnStack];
  std::vector<int64_t> many_;
  size_t bytes_ = 0;
  void* extra_[5];
  KernelNode node_ = {};
};

}  // namespace preheat::cuda

#endif  // PREHEAT_KERNELS_DEVICE_CUDA_LAUNCH_H_
