#ifndef PREHEAT_KERNELS_DEVICE_CUDA_GRAPH_H_
#define PREHEAT_KERNELS_DEVICE_CUDA_GRAPH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/cuda_driver.h"
#include "kernels/device/device.h"

namespace preheat::cuda {

// Launches as a CUDA graph. A launch is a kernel node, which takes other arguments in
// less than a microsecond; what cannot be looked into (a library's call) is captured as a child graph, which is
// captured again and exchanged when its memory moves.
absl::StatusOr<std::unique_ptr<LaunchGraph>> NewLaunchGraph(const Driver& driver, Context context);

}  // namespace preheat::cuda

#endif  // PREHEAT_KERNELS_DEVICE_CUDA_GRAPH_H_
