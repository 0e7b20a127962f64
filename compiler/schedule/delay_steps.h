#ifndef PREHEAT_COMPILER_SCHEDULE_DELAY_STEPS_H_
#define PREHEAT_COMPILER_SCHEDULE_DELAY_STEPS_H_

#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// Moves each step to just before the first that reads its results, where that holds less memory: results come into
// being later, and of what the step reads only what nobody reads later is kept for longer. The steps are left alone
// when the program's memory at its fullest would not shrink, when a size is not known, and when torch runs some of
// them, whose order counts. Near linear in the number of steps.
void DelaySteps(const ir::Graph& graph, const Layouts& layouts, Partition& partition);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_DELAY_STEPS_H_
