#ifndef PREHEAT_COMPILER_SCHEDULE_SPLIT_FULLEST_H_
#define PREHEAT_COMPILER_SCHEDULE_SPLIT_FULLEST_H_

#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// Where a program's memory is at its fullest, takes regions apart that write several results each of which could be
// computed on its own (query, key and value, cut out of one product): each is written just before its first reader
// then. Only as far as that makes the program's memory at its fullest smaller by a sixteenth, and only where no more
// than a few simple operations are done twice. Programs with sizes that are not known, or steps that torch runs, are
// left alone. The steps are in an order that DelaySteps is content with, before and after.
void SplitFullest(const ir::Graph& graph, const Layouts& layouts, Partition& partition);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_SPLIT_FULLEST_H_
