#ifndef PREHEAT_SERVER_WORKER_WORKER_GPU_H_
#define PREHEAT_SERVER_WORKER_WORKER_GPU_H_

#include <atomic>
#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autotune/rounds.h"
#include "kernels/device/device.h"
#include "kernels/device/gpus.h"

namespace preheat::worker {

// The GPU of a worker's process, if it is for one. Its context is made by the first artifact that runs there and ends
// with the process: see Leaving in pool.proto.

// For "cuda:1" makes the second GPU that CUDA_VISIBLE_DEVICES names the only one of this process. False when there is
// none such. For "cpu:0" there is nothing to do. To be called once, before any other thread is there.
bool SelectDevice(absl::string_view device);

// Null in a worker for a CPU.
const Gpu* WorkersGpu();

// FAILED_PRECONDITION "no_such_device" when artifacts for `target` are for a GPU that this worker has not.
absl::Status CheckDevice(const std::string& target);
// Where they run; null: on the CPU. Errors as of CheckDevice.
absl::StatusOr<Device*> DeviceFor(const std::string& target);

// Waits until nobody else uses the worker's GPU: a job's memory and time are not for us to take. UNAVAILABLE "gpu_busy"
// when it is still used after `patience`, FAILED_PRECONDITION "no_nvml" when that cannot be told; CANCELLED.
absl::Status WaitForGpu(std::chrono::milliseconds patience, const std::atomic<bool>* cancelled);

// Looks after others who come while this process measures on its GPU: they want its memory, too. Errors as of
// WaitForGpu. Not for several threads at once.
class GpuWatch {
 public:
  explicit GpuWatch(const std::atomic<bool>* cancelled) : cancelled_(cancelled) {}
  absl::Status Look(autotune::Moment moment);

 private:
  const std::atomic<bool>* const cancelled_;
  int64_t loaded_bytes_ = 0;  // of the whole GPU, when all of ours was there
};

// Whether this process holds memory of a GPU, and whether the last artifact has left its context in order.
bool HoldsGpu();
bool GpuIsWell();

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_WORKER_GPU_H_
