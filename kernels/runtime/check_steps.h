#ifndef PREHEAT_KERNELS_RUNTIME_CHECK_STEPS_H_
#define PREHEAT_KERNELS_RUNTIME_CHECK_STEPS_H_

#include "absl/status/status.h"
#include "kernels/runtime/plan_facts.h"

namespace preheat::runtime {

// The steps of a plan's prologue, or those of a run: what they refer to is there, and they read and write what they
// may. Notes in `defined` the symbols that they define. REQUIRES: CheckSections was content. DATA_LOSS
// "corrupt_artifact", FAILED_PRECONDITION "incompatible_plan".
absl::Status CheckSteps(PlanFacts& plan, bool prologue);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_CHECK_STEPS_H_
