// The cost of compiling grows with the program, not with its square: operations of the allocator, which no load on the
// machine changes, and seconds of CPU with room for one.

#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "compiler/compile.h"
#include "compiler/draft.h"
#include "kernels/runtime/preheat_runtime.h"
#include "tests/scale/count_allocations.h"
#include "tests/scale/large_program.h"

namespace preheat {
namespace {

struct Cost {
  double allocations = 0, seconds = 0;  // of an operator
};

// All that the compiler itself does; what the host compiler takes depends on the distinct kernels only.
Cost CostOf(const std::string& kind, int operators) {
  capture::AtenProgram program = testing::MakeLargeProgram(kind, operators);
  const double nodes = static_cast<double>(program.nodes.size());
  CompileOptions options;
  options.target = preheat_host_target();
  const int64_t before = testing::Allocations();
  const std::clock_t start = std::clock();
  auto canonical = Canonicalize(std::move(program), {}, options);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  if (!canonical.ok()) return {};
  auto draft = MakeDraft(*canonical, options);
  EXPECT_TRUE(draft.ok()) << draft.status();
  if (!draft.ok()) return {};
  auto artifact = FinishDraft(*std::move(draft), {std::string()});
  EXPECT_TRUE(artifact.ok()) << artifact.status();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {static_cast<double>(testing::Allocations() - before) / nodes, seconds / nodes};
}

class CompileCost : public ::testing::TestWithParam<std::string> {};

TEST_P(CompileCost, GrowsWithTheProgram) {
  CostOf(GetParam(), 200);  // tables that are built once
  const Cost small = CostOf(GetParam(), 1000), large = CostOf(GetParam(), 8000);
  // Eight times the program: a logarithm may show, a quadratic part of a tenth would be 1.7.
  EXPECT_LT(large.allocations, 1.25 * small.allocations);
  // A quadratic cost would be 8; caches and the machine's other work are not.
  EXPECT_LT(large.seconds, 3 * small.seconds);
  RecordProperty("allocations_an_operator", std::to_string(large.allocations));
  RecordProperty("microseconds_an_operator", std::to_string(large.seconds * 1e6));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CompileCost, ::testing::ValuesIn(testing::LargeProgramKinds()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace preheat
