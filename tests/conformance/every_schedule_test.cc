// Every schedule that makes another kernel computes what the evaluator does, at any address.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/draft.h"
#include "compiler/ir/parse.h"
#include "tests/conformance/check_graph.h"
#include "tests/conformance/schedule_programs.h"

namespace preheat {
namespace {

using testing::ScheduleProgram;
using testing::Target;

class EverySchedule : public ::testing::TestWithParam<int> {};

TEST_P(EverySchedule, ComputesTheSame) {
  const ScheduleProgram program = testing::SchedulePrograms()[GetParam()];
  for (const codegen::Schedule& schedule : testing::DifferentSchedules(program.text, Target())) {
    SCOPED_TRACE(codegen::ScheduleText(schedule));
    testing::Check(*ir::ParseGraph(program.text), program.symbols, 1, /*unaligned=*/true, {schedule, {}, {}});
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, EverySchedule,
                         ::testing::Range(0, static_cast<int>(testing::SchedulePrograms().size())));

// A knob that turns nothing is no candidate of anybody.
TEST(EveryScheduleOfAGpu, EachKnobTurnsSomething) {
  std::set<std::string> turned;
  for (const ScheduleProgram& program : testing::SchedulePrograms()) {
    for (const codegen::Schedule& schedule : testing::DifferentSchedules(program.text, "cuda:sm_90")) {
      if (schedule.size() == 1) turned.insert(codegen::ScheduleText(schedule));
    }
  }
  for (const codegen::Knob& knob : codegen::Knobs()) {
    if (knob.device != DeviceKind::kCuda || knob.name == "algorithm") continue;
    for (const std::string& value : knob.values) {
      const std::string text = codegen::ScheduleText({{knob.name, value}});
      EXPECT_EQ(turned.count(text), 1u) << text;
    }
  }
}

// What no kernel can have is passed over.
TEST(EveryScheduleOfAGpu, SenseIsNotExpected) {
  for (const ScheduleProgram& program : testing::SchedulePrograms()) {
    for (const char* text : {"threads=100", "threads=1073741824", "row_threads=3", "columns=4096", "steps=7",
                             "vector=1024", "held=1000000", "waves=0", "block=100", "block=1"}) {
      SCOPED_TRACE(text);
      codegen::Schedule schedule = *codegen::ParseSchedule(text);
      Canonical canonical;
      canonical.graph = *ir::ParseGraph(program.text);
      CompileOptions options;
      options.target = "cuda:sm_90";
      options.schedules.everywhere = schedule;
      EXPECT_TRUE(MakeDraft(canonical, options).ok());
    }
  }
}

}  // namespace
}  // namespace preheat
