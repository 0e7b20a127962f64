#ifndef PREHEAT_COMPILER_EAGER_COST_H_
#define PREHEAT_COMPILER_EAGER_COST_H_

#include <cstdint>

#include "compiler/capture/aten_program.h"

namespace preheat {

// What eager execution of a program costs, from the program alone: the "before" of reports.

// Device kernels that eager launches: one for each operator that is no view, none for what only reads sizes, and a
// table for composites (eager's layer_norm is one kernel, cross_entropy two).
int CountEagerKernels(const capture::AtenProgram& program);

// The most bytes of results that live at once when each operator allocates its results and values die after their last
// use. Views own nothing; inputs are not counted. Sizes left as ranges count with their least value.
int64_t EagerPeakBytes(const capture::AtenProgram& program);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_EAGER_COST_H_
