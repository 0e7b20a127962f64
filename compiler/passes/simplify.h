#ifndef PREHEAT_COMPILER_PASSES_SIMPLIFY_H_
#define PREHEAT_COMPILER_PASSES_SIMPLIFY_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/rewrite/rules.h"

namespace preheat::passes {

// Algebra that holds for every input, NaN, infinities and signed zeros included, applied until none is left.
//
// To add a rule: one line in the table of its root operator (simplify_<family>.cc), one line in
// simplify_test.cc. A rule never makes a graph slower, and none is a mere change of order.
absl::StatusOr<ir::Graph> Simplify(const ir::Graph& graph);

// The tables, by family.
rewrite::RuleSet ArithmeticRules();  // add, sub, mul, div, neg, abs, pow, max, min
rewrite::RuleSet LogicRules();       // not, and, or, xor, where
rewrite::RuleSet CastRules();        // cast
rewrite::RuleSet ViewRules();        // reshape, permute, broadcast, slice, pad, flip, concat
rewrite::RuleSet ReductionRules();   // reductions and products over nothing or over one element

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_SIMPLIFY_H_
