#ifndef PREHEAT_KERNELS_RUNTIME_CHECK_PLAN_H_
#define PREHEAT_KERNELS_RUNTIME_CHECK_PLAN_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/runtime/plan_view.h"

namespace preheat::runtime {

inline constexpr uint32_t kMaxRank = 16;

// Looks at bytes that may be anything and gives the plan in them (it points into `bytes`, which must be aligned to 64)
// once every index, count, rank, enum and order that FORMAT.md promises holds, in the plan and in its subplans. Nothing
// that depends on symbols' values is looked at here: bound_plan.h does that for each binding.
//
// FAILED_PRECONDITION "incompatible_plan" names both versions; DATA_LOSS "corrupt_artifact" says what is wrong and
// where.
absl::StatusOr<const plan::Plan*> CheckPlan(const void* bytes, size_t size);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_CHECK_PLAN_H_
