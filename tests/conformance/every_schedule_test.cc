// Every schedule that makes another kernel computes what the evaluator does, at any address.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/target.h"
#include "compiler/draft.h"
#include "compiler/ir/parse.h"
#include "tests/conformance/check_graph.h"
#include "tests/conformance/random_graph.h"
#include "tests/conformance/schedule_programs.h"

namespace preheat {
namespace {

using testing::ScheduleProgram;
using testing::Target;

// Of library calls: what a library proposes or provides differs from machine to machine.
bool IsOfCalls(const codegen::Knob& knob) { return knob.name == "algorithm" || knob.name == "provider"; }

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

// PREHEAT_FUZZ_SEEDS sets how many programs are tried.
TEST(RandomSchedules, OfRandomProgramsAgreeWithTheEvaluator) {
  const char* asked = std::getenv("PREHEAT_FUZZ_SEEDS");
  const int count = asked != nullptr ? std::atoi(asked) : 40;
  const char* first = std::getenv("PREHEAT_FUZZ_FIRST");
  const int start = first != nullptr ? std::atoi(first) : 0;
  for (int seed = start; seed < start + count && !HasFailure(); ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    codegen::Schedule schedule;
    for (const codegen::Knob& knob : codegen::Knobs()) {
      const bool turned = knob.device == DeviceKindOf(Target()) && random() % 2 == 0;
      if (turned && !IsOfCalls(knob)) schedule[knob.name] = knob.values[random() % knob.values.size()];
    }
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", codegen::ScheduleText(schedule)));
    ir::SymbolValues symbols;
    if (seed % 3 == 0) symbols["d0"] = 1 + seed % 20;
    testing::Check(testing::RandomGraph(1000 + seed, 4 + seed % 24, seed % 3 == 0), symbols, seed, /*unaligned=*/false,
                   {schedule, {}, {}});
  }
}

// A knob that turns nothing is no candidate of anybody.
TEST(EveryScheduleOfAGpu, EachKnobTurnsSomething) {
  std::set<std::string> turned;
  for (const ScheduleProgram& program : testing::SchedulePrograms()) {
    for (const codegen::Schedule& schedule : testing::DifferentSchedules(program.text, "cuda:sm_90")) {
      if (schedule.size() == 1) turned.insert(codegen::ScheduleText(schedule));
    }
  }
  for (const codegen::Knob& knob : codegen::Knobs()) {
    if (knob.device != DeviceKind::kCuda || IsOfCalls(knob)) continue;
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
