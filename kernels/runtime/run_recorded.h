#ifndef PREHEAT_KERNELS_RUNTIME_RUN_RECORDED_H_
#define PREHEAT_KERNELS_RUNTIME_RUN_RECORDED_H_

#include <optional>

#include "absl/status/status.h"
#include "kernels/runtime/plan_instance.h"
#include "kernels/runtime/runner.h"

namespace preheat::runtime {

// A session's root plan on a device with launch graphs, in the workspace of the state's stream: the first run of a
// binding goes step by step, the second is recorded, later ones start what was recorded. Nothing waits for the device.
//
// Tensors that lie elsewhere are followed by changing the recording: as good as a recording for each set of places
// (starting another graph than the last time costs as much) and better than copies (BENCHMARKS.md).
//
// Nothing: this run must be done step by step in memory of the state's own (hosts, subplans, plans that define sizes,
// an arena of the caller's).
std::optional<absl::Status> RunRecorded(PlanInstance& instance, RunState& state, Runner& runner);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_RUN_RECORDED_H_
