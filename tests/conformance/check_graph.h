#ifndef PREHEAT_TESTS_CONFORMANCE_CHECK_GRAPH_H_
#define PREHEAT_TESTS_CONFORMANCE_CHECK_GRAPH_H_

#include <cstdint>
#include <string>

#include "compiler/compile.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/host_tensor.h"

namespace preheat::testing {

// This CPU, or what PREHEAT_TEST_TARGET says: a GPU's needs a GPU or tests/emulator.
std::string Target();

// Compiles, runs and compares with the evaluator; gives the artifact's report. `unaligned`: on a GPU the last run has
// every tensor at an address that only its elements are aligned to.
Report Check(ir::Graph graph, const ir::SymbolValues& symbols, uint64_t seed, bool unaligned = false,
             const codegen::Schedules& schedules = {});
Report CheckText(const std::string& text, const ir::SymbolValues& symbols = {}, bool unaligned = false);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_CONFORMANCE_CHECK_GRAPH_H_
