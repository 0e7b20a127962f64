#ifndef PREHEAT_KERNELS_RUNTIME_CHECK_SECTIONS_H_
#define PREHEAT_KERNELS_RUNTIME_CHECK_SECTIONS_H_

#include "absl/status/status.h"
#include "kernels/runtime/plan_facts.h"

namespace preheat::runtime {

// Everything in a plan but its steps: sizes, symbols, guards, buffers, inputs, outputs, kernels. Fills the facts but
// `defined`. DATA_LOSS "corrupt_artifact".
absl::Status CheckSections(PlanFacts& plan);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_CHECK_SECTIONS_H_
