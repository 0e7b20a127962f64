#ifndef PREHEAT_COMPILER_SCHEDULE_REDUCE_EARLY_H_
#define PREHEAT_COMPILER_SCHEDULE_REDUCE_EARLY_H_

#include "absl/status/status.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// Where a program's memory is at its fullest because of what is kept for a reduction that a later region computes on
// its way (a pooling that went into the sum at the end of a block keeps what it pools), makes that reduction a step of
// its own, which comes as soon as it can. Only as far as that makes the memory at its fullest smaller by a sixteenth.
// The partition is as Fuse and DelaySteps made it for a CPU, before and after; programs with sizes that are not known,
// or steps that torch runs, are left alone.
absl::Status ReduceEarly(const ir::Graph& graph, const Layouts& layouts, Partition& partition);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_REDUCE_EARLY_H_
