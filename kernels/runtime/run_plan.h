#ifndef PREHEAT_KERNELS_RUNTIME_RUN_PLAN_H_
#define PREHEAT_KERNELS_RUNTIME_RUN_PLAN_H_

#include "absl/status/status.h"
#include "kernels/runtime/plan_instance.h"

namespace preheat::runtime {

// Executes the steps of `state.bound` in order, one function a kind of step. REQUIRES: symbols, inputs and outputs of
// the state are set and checked. Stops at the first error; memory that steps write is then undefined.
//
// An error word that a kernel has set ends the run with OUT_OF_RANGE, naming the operator.
absl::Status RunPlan(PlanInstance& instance, RunState& state);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_RUN_PLAN_H_
