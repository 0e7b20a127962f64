#ifndef PREHEAT_COMPILER_IR_EVALUATE_H_
#define PREHEAT_COMPILER_IR_EVALUATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/host_tensor.h"

namespace preheat::ir {

// The meaning of the core operators, one element at a time: folds constants and judges everything faster.
// Floats are computed in double and rounded once to the result's dtype; integers wrap.
//
// INVALID_ARGUMENT: inputs that do not fit the graph. OUT_OF_RANGE: what sets the error word of a run, an
// index out of range or an integer divided by zero. UNIMPLEMENTED: extern. RESOURCE_EXHAUSTED: above
// kMaxHostElements.

// One tensor an output; those that mutate an input hold its new contents.
absl::StatusOr<std::vector<HostTensor>> Evaluate(const Graph& graph, absl::Span<const HostTensor> inputs,
                                                 const SymbolValues& symbols);

// One node's results. `operands` in the node's order, of the types that the node's operands have.
absl::StatusOr<std::vector<HostTensor>> EvaluateNode(const Node& node, absl::Span<const HostTensor* const> operands,
                                                     const SymbolValues& symbols);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_EVALUATE_H_
