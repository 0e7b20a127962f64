#ifndef PREHEAT_COMPILER_IR_TEST_TENSORS_H_
#define PREHEAT_COMPILER_IR_TEST_TENSORS_H_

#include <random>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/host_tensor.h"

// For tests of every layer that holds something against Evaluate.
namespace preheat::ir {

// Floats N(0, 1) with a few zeros, infinities and NaN mixed in when `special`; integers -4 to 4; bool even.
HostTensor RandomTensor(std::mt19937& rng, DType dtype, std::vector<int64_t> shape, bool special = false);

// One for each input of the graph, sizes by their symbols. REQUIRES: every symbol has a value and no shape
// is above kMaxHostElements.
std::vector<HostTensor> RandomInputs(const Graph& graph, const SymbolValues& symbols, unsigned seed,
                                     bool special = false);

// "" when they agree: integers and bytes exactly, floats within `tolerance` times (1 + |expected|) and with
// equal NaN and infinities (a tolerance of 0: signs of zero too); otherwise what differs first.
std::string Difference(const HostTensor& got, const HostTensor& expected, double tolerance);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_TEST_TENSORS_H_
