#ifndef PREHEAT_COMPILER_CAPTURE_GUARD_BRANCH_H_
#define PREHEAT_COMPILER_CAPTURE_GUARD_BRANCH_H_

#include <cstddef>

#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// For a branch that is computed whether or not it is taken: has its nodes, from number `first` to the last one of the
// program, take index 0 instead of their own and divide integers by 1 where `condition`, a bool tensor's id, is not
// `taken`. So what eager would not have run does not fail. Adds values and nodes.
void GuardBranch(AtenProgram& program, size_t first, int condition, bool taken);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_GUARD_BRANCH_H_
