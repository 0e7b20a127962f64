#ifndef PREHEAT_COMPILER_IR_EQUAL_H_
#define PREHEAT_COMPILER_IR_EQUAL_H_

#include "compiler/ir/graph.h"

namespace preheat::ir {

// True when both print the same text, found without printing. Debug ids do not matter.
bool Equal(const Graph& a, const Graph& b);

// Attributes of one kind and value; doubles by their bits, so that NaN equals itself and 0 differs from -0.
bool Equal(const Attrs& a, const Attrs& b);

// True when both nodes, of one graph or of two, apply the same operator with the same attributes to values of the same
// numbers. Equal nodes have equal hashes.
bool EqualNodes(const Node& a, const Node& b);
size_t HashOf(const Node& node);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_EQUAL_H_
