#include "tests/conformance/check_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "kernels/runtime/preheat_runtime.h"
#include "tests/conformance/graph_runner.h"

namespace preheat::testing {

std::string Target() {
  const char* named = std::getenv("PREHEAT_TEST_TARGET");
  return named != nullptr && *named != 0 ? named : preheat_host_target();
}

Report Check(ir::Graph graph, const ir::SymbolValues& symbols, uint64_t seed, bool unaligned,
             const codegen::Schedules& schedules) {
  std::string text = ir::Print(graph);
  auto runner = GraphRunner::Make(std::move(graph), Target(), schedules);
  EXPECT_TRUE(runner.ok()) << runner.status() << "\n" << text;
  if (!runner.ok()) return {};
  auto inputs = RandomInputs(runner->graph(), symbols, seed);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  if (!inputs.ok()) return {};
  auto want = ir::Evaluate(runner->graph(), *inputs, symbols);
  EXPECT_TRUE(want.ok()) << want.status() << "\n" << text;
  if (!want.ok()) return {};
  auto got = runner->Run(*inputs, symbols, unaligned);
  EXPECT_TRUE(got.ok()) << got.status() << "\n" << text;
  if (!got.ok()) return {};
  for (size_t i = 0; i < want->size(); ++i) {
    EXPECT_EQ(Differ((*got)[i], (*want)[i]), "") << "output " << i << " of\n"
                                                 << text << "\n"
                                                 << runner->artifact().source;
  }
  return runner->artifact().report;
}

Report CheckText(const std::string& text, const ir::SymbolValues& symbols, bool unaligned) {
  auto graph = ir::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? Check(*std::move(graph), symbols, 1, unaligned) : Report{};
}

}  // namespace preheat::testing
