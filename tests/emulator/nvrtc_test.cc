#include "compiler/codegen/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "compiler/compile.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "tests/conformance/random_graph.h"
#include "tests/conformance/schedule_programs.h"

namespace preheat {
namespace {

// Compiles for every architecture, all kernels with the real NVRTC.
void CompileForAll(const ir::Graph& graph, const codegen::Schedule& schedule = {}) {
  for (const char* target : {"cuda:sm_80", "cuda:sm_90", "cuda:sm_100"}) {
    Canonical canonical;
    canonical.graph = *ir::ParseGraph(ir::Print(graph));
    CompileOptions options;
    options.target = target;
    options.schedules.everywhere = schedule;
    auto artifact = Compile(canonical, options);
    EXPECT_TRUE(artifact.ok()) << target << ": " << artifact.status() << "\n" << ir::Print(graph);
  }
}

class Nvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!codegen::NvrtcVersion().ok()) GTEST_SKIP() << codegen::NvrtcVersion().status().message();
  }
};

TEST_F(Nvrtc, TakesTheGoldenPrograms) {
  int programs = 0;
  for (const auto& file : std::filesystem::directory_iterator(PREHEAT_SOURCE_DIR "/tests/golden")) {
    if (file.path().extension() != ".hir") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    auto graph = ir::ParseGraph(text.str());
    ASSERT_TRUE(graph.ok()) << file.path() << ": " << graph.status();
    SCOPED_TRACE(file.path().string());
    CompileForAll(*graph);
    ++programs;
  }
  EXPECT_GE(programs, 4);
}

TEST_F(Nvrtc, TakesRandomPrograms) {
  for (int seed = 0; seed < 8 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CompileForAll(testing::RandomGraph(seed, 12 + seed, seed % 3 == 0));
  }
}

TEST_F(Nvrtc, TakesEverySchedule) {
  for (const testing::ScheduleProgram& program : testing::SchedulePrograms()) {
    for (const codegen::Schedule& schedule : testing::DifferentSchedules(program.text, "cuda:sm_90")) {
      SCOPED_TRACE(codegen::ScheduleText(schedule));
      CompileForAll(*ir::ParseGraph(program.text), schedule);
    }
  }
}

}  // namespace
}  // namespace preheat
