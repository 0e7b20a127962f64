#ifndef PREHEAT_COMPILER_SCHEDULE_FIND_ROOTS_H_
#define PREHEAT_COMPILER_SCHEDULE_FIND_ROOTS_H_

#include "compiler/ir/graph.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// Values that must or had better be in memory.
struct Roots {
  explicit Roots(const ir::Graph& graph) : is_root(graph), required(graph) {}

  ir::ValueMap<char> is_root;   // computed by a loop of its own, whose result others may read
  ir::ValueMap<char> required;  // those that are stored in any case: outputs, and what calls read and write
};

// Roots are what is required, reductions, costly values with several uses, and operands of views that repeat elements;
// of a window over a padded value that one, with `store_padding`, or the smaller one that it pads.
Roots FindRoots(const ir::Graph& graph, const Layouts& layouts, bool store_padding);

bool IsLeaf(ir::Op op);    // fill, iota, size: nothing to load
bool InMemory(ir::Op op);  // inputs and constants

// What computing one element takes, in simple operations: nothing for views and leaves.
int CostOf(const ir::Node& node);
inline constexpr int kCostlyOps = 8;  // so many, or more, are better not done twice

// What is put into is often all zeros: the kernel of put_rows or scatter writes them itself.
bool IsStartingFill(const ir::Node& node, ir::Value operand);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_FIND_ROOTS_H_
