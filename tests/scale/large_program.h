#ifndef PREHEAT_TESTS_SCALE_LARGE_PROGRAM_H_
#define PREHEAT_TESTS_SCALE_LARGE_PROGRAM_H_

#include <string>
#include <vector>

#include "compiler/capture/aten_program.h"

namespace preheat::testing {

// Programs of about `operators` ATen operators in the shapes that large ones have:
//   layers    blocks of a transformer, one after the other
//   training  a chain forward and one backward that reads each value of the first, in the other order
//   optimizer many short pieces that share nothing but a few scalars
capture::AtenProgram MakeLargeProgram(const std::string& kind, int operators);

std::vector<std::string> LargeProgramKinds();

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_SCALE_LARGE_PROGRAM_H_
