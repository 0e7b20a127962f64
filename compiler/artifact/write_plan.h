#ifndef PREHEAT_COMPILER_ARTIFACT_WRITE_PLAN_H_
#define PREHEAT_COMPILER_ARTIFACT_WRITE_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/artifact/plan_model.h"

namespace preheat::artifact {

// The bytes of a plan (plan.fbs, version kPlanVersion). The same plan gives the same bytes.
// INTERNAL when a symbol that sizes use comes from no input.
absl::StatusOr<std::string> WritePlan(const Plan& plan);

}  // namespace preheat::artifact

#endif  // PREHEAT_COMPILER_ARTIFACT_WRITE_PLAN_H_
