#ifndef PREHEAT_COMPILER_ARTIFACT_PLAN_VERSION_H_
#define PREHEAT_COMPILER_ARTIFACT_PLAN_VERSION_H_

#include <cstdint>

namespace preheat::plan {

// Written into plans. A runtime accepts [kMinPlanVersion, kPlanVersion]; raise kPlanVersion with every addition
// that an older runtime would misread, kMinPlanVersion when support of an old form ends.
inline constexpr uint32_t kPlanVersion = 1;
inline constexpr uint32_t kMinPlanVersion = 1;

}  // namespace preheat::plan

#endif  // PREHEAT_COMPILER_ARTIFACT_PLAN_VERSION_H_
