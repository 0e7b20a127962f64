#ifndef PREHEAT_COMPILER_SCHEDULE_MERGE_GROUPS_H_
#define PREHEAT_COMPILER_SCHEDULE_MERGE_GROUPS_H_

#include <set>

#include "compiler/schedule/groups.h"

namespace preheat::schedule {

inline constexpr size_t kMaxRegionNodes = 192;

// A root's group goes into the one that consumes it wherever the consumer computes each element once: in the same
// element order, or one a row; but not those that compute a value in `apart`.
void MergeIntoConsumers(Groups& groups, const std::set<ir::Value>& apart);

// Groups that read the same value and loop over the same rows, neither needing the other, become one. `by_producer`: of
// those that sum columns, also what reads different values of one group.
void MergeSiblings(Groups& groups, bool by_producer);

// Sums over blocks of rows go into a group that goes through the same rows and shares a value with them, if they depend
// on each other at all then row by row.
void MergeBlockSums(Groups& groups);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_MERGE_GROUPS_H_
