#ifndef PREHEAT_CLIENT_COMPILECTL_PLAN_TEXT_H_
#define PREHEAT_CLIENT_COMPILECTL_PLAN_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::cli {

// A plan as JSON with the names of compiler/artifact/plan.fbs, constants as their number of bytes. DATA_LOSS
// "corrupt_artifact" for what is no plan.
absl::StatusOr<std::string> PlanText(absl::string_view plan);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_PLAN_TEXT_H_
