#ifndef PREHEAT_COMPILER_CODEGEN_SCHEDULE_H_
#define PREHEAT_COMPILER_CODEGEN_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/codegen/target.h"

namespace preheat::codegen {

// How a kernel or a library call is made, where that departs from what the cost model chooses: knob -> value. Empty:
// the default.
using Schedule = std::map<std::string, std::string>;

// "tile=64,width=256"; "default" when empty. Parse reads the same: INVALID_ARGUMENT "bad_schedule" for a knob that does
// not exist or a value that it cannot have.
std::string ScheduleText(const Schedule& schedule);
absl::StatusOr<Schedule> ParseSchedule(absl::string_view text);

// The search space as data: what each knob means stands in schedule.cc, beside the values worth measuring.
struct Knob {
  std::string name;
  DeviceKind device;
  std::vector<std::string> values;  // to try, apart from the default
};
absl::Span<const Knob> Knobs();

// A region's choices under a schedule.
Choices WithSchedule(Choices choices, const Schedule& schedule);
// The number that a knob is set to; nothing when the schedule leaves it alone.
std::optional<int64_t> KnobValue(const Schedule& schedule, const std::string& knob);
// The same, only where it is a power of two from `least` to `most`.
std::optional<int64_t> PowerOfTwo(const Schedule& schedule, const std::string& knob, int64_t least, int64_t most);

// Schedules for the sites of a program. A site is a kernel, called by the symbol that it has by default, or a library
// call, called by its shape: wherever a program has it, it is the same site.
struct Schedules {
  Schedule everywhere;
  std::map<std::string, Schedule> at;  // by site; counts instead of `everywhere`
  // What a library has said of the algorithm that a site's schedule names by number, to be kept in the plan instead of
  // the number, which holds only for the library's version at hand.
  std::map<std::string, std::string> algorithms;

  const Schedule& For(const std::string& site) const;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_SCHEDULE_H_
