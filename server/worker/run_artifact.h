#ifndef PREHEAT_SERVER_WORKER_RUN_ARTIFACT_H_
#define PREHEAT_SERVER_WORKER_RUN_ARTIFACT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/reference/inputs/host_tensor.h"
#include "kernels/device/device.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::worker {

// Loads, binds and runs an artifact, on the target's device and through the same C ABI as clients do. `inputs`: one for
// each input of the program, frozen ones included, sizes as 0-d i64. Outputs in the order of the program's, the new
// contents of mutated inputs among them, each with the strides that the plan declares. Extern calls go to
// libpreheat_torch.so when that can be opened: otherwise FAILED_PRECONDITION "extern_needs_torch", as on a GPU.
// One that leaves its inputs alone runs three times on a GPU: what is launched there step by step, recorded and started
// again as a graph.
absl::StatusOr<std::vector<reference::HostTensor>> RunArtifact(const std::string& target, const std::string& plan,
                                                               const std::map<std::string, std::string>& code,
                                                               const std::vector<reference::HostTensor>& inputs);

// torch's dispatcher, opened at the first use; null where there is none, for a GPU where torch is without CUDA.
preheat_extern_handler ExternHandler(const Device* gpu);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_RUN_ARTIFACT_H_
