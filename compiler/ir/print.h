#ifndef PREHEAT_COMPILER_IR_PRINT_H_
#define PREHEAT_COMPILER_IR_PRINT_H_

#include <string>

#include "compiler/ir/graph.h"

namespace preheat::ir {

// The text of a graph, which ParseGraph (parse.h) reads back:
//
//   symbol d0 in [1, 512]                                              "[1, inf]" without a maximum
//   %0 = input user f32[d0, 8] strides [8, 1] align 16                 kinds: parameter, buffer, user, constant;
//   %1 = input buffer f32[8] strides [1] align 4 frozen                 then "frozen" and "size d0" where they hold
//   %2 = reshape(%1) {shape = (1, 8)} : f32[1, 8]
//   %3 = broadcast(%2) {shape = (d0, 8)} : f32[d0, 8]
//   %4 = add(%0, %3) : f32[d0, 8]
//   %5 = sort(%4) {descending = 0, dim = 1} : f32[d0, 8], i64[d0, 8]
//   output %5.1 strides [8, 1]                                         then "mutates 0", "aliases 0" where they hold
//
// Values are %node, or %node.result from the second result on. Attributes stand in the order of their
// names; their kinds show: 3 (int), 3.0 inf nan (double), "a\"b" (string), x"00ff" (the bytes of a
// constant), f32 (dtype), <2*d0> (expression), [1, 2] (ints), (d0, 8) (expressions), {"relu"} (strings).
//
// The text is canonical: equal graphs give equal text, which keys hash. Debug ids are not in it. Whatever
// changes it changes every key.
std::string Print(const Graph& graph);

// One node's line, without its end.
std::string Print(const Node& node);

// Parts of it. A double is written with as many digits as bring it back.
std::string PrintDouble(double value);
std::string PrintValue(const Value& value);

// "parameter", "buffer", "user", "constant".
absl::string_view InputKindName(InputKind kind);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_PRINT_H_
