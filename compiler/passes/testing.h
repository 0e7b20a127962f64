#ifndef PREHEAT_COMPILER_PASSES_TESTING_H_
#define PREHEAT_COMPILER_PASSES_TESTING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/test_tensors.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/eliminate_dead_code.h"
#include "compiler/passes/pipeline.h"
#include "gtest/gtest.h"

// What the tests of passes share.
namespace preheat::passes {

inline ir::Graph Parsed(absl::string_view text) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
  return graph.ok() ? *std::move(graph) : ir::Graph();
}

// The text with canonical numbers and without dead code, whatever names it had.
inline std::string Canonical(absl::string_view text) { return ir::Print(*EliminateDeadCode(Parsed(text))); }

// The pass applied to the text, then the dead code it left behind removed.
inline std::string After(PassFn pass, absl::string_view text) {
  absl::StatusOr<ir::Graph> result = pass(Parsed(text));
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return "";
  EXPECT_TRUE(ir::Verify(*result).ok()) << ir::Verify(*result);
  return ir::Print(*EliminateDeadCode(*result));
}

// Both graphs give the same on random inputs (special: with NaN, infinities and signed zeros), or fail with the same
// code. Symbols are 3.
inline void ExpectSameResults(const ir::Graph& before, const ir::Graph& after, double tolerance, unsigned seed = 1,
                              bool special = false) {
  ir::SymbolValues symbols;
  for (const ir::Symbol& symbol : before.symbols()) symbols[symbol.name] = 3;
  std::vector<ir::HostTensor> inputs = ir::RandomInputs(before, symbols, seed, special);
  auto expected = ir::Evaluate(before, inputs, symbols);
  auto got = ir::Evaluate(after, inputs, symbols);
  ASSERT_EQ(got.status().code(), expected.status().code()) << got.status() << expected.status() << ir::Print(before);
  if (!expected.ok()) return;
  ASSERT_EQ(got->size(), expected->size());
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_EQ(ir::Difference((*got)[i], (*expected)[i], tolerance), "") << "output " << i << "\nbefore:\n"
                                                                        << ir::Print(before) << "\nafter:\n"
                                                                        << ir::Print(after);
  }
}

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_TESTING_H_
