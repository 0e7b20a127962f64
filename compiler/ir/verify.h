#ifndef PREHEAT_COMPILER_IR_VERIFY_H_
#define PREHEAT_COMPILER_IR_VERIFY_H_

#include "absl/status/status.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// INTERNAL, naming the first line that is wrong, unless all of this holds. A graph of ours that fails is a
// bug of the pass that made it.
//
//   Symbols   have names fit for an expression, each once, and min <= max.
//   Inputs    each is the input node of its number and type; one stride a dimension; the alignment is 16 or
//             one element's size; a size is i64[] and names a declared symbol.
//   Nodes     an id is a position; operands are results of earlier nodes of this graph; operand number,
//             attributes and result types are those of infer.h; every symbol used anywhere is declared.
//   Outputs   are values of this graph; one stride a dimension; `mutates` names an input of the same type, not
//             frozen, each at most once; `aliases` names an input; no output does both.
absl::Status Verify(const Graph& graph);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_VERIFY_H_
