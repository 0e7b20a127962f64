#ifndef PREHEAT_TESTS_CONFORMANCE_SCHEDULE_PROGRAMS_H_
#define PREHEAT_TESTS_CONFORMANCE_SCHEDULE_PROGRAMS_H_

#include <string>
#include <vector>

#include "compiler/codegen/schedule.h"
#include "compiler/ir/host_tensor.h"

namespace preheat::testing {

struct ScheduleProgram {
  std::string text;
  ir::SymbolValues symbols;
};

// Small programs of one kernel each or a few, of every class that schedules turn, at sizes around those where a kernel
// is laid out in another way; some have sizes that are known when they run only, some no elements.
std::vector<ScheduleProgram> SchedulePrograms();

// The schedules that make `program` for `target` in different ways, the default first: each turns one knob, or two.
std::vector<codegen::Schedule> DifferentSchedules(const std::string& program, const std::string& target);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_CONFORMANCE_SCHEDULE_PROGRAMS_H_
