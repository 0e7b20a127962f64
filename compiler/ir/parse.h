#ifndef PREHEAT_COMPILER_IR_PARSE_H_
#define PREHEAT_COMPILER_IR_PARSE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// Reads the text that print.h describes, and verifies the graph. Easier than what Print writes: values may
// have any name of letters, digits and '_' ("%x"), result types may be left out where they are inferred,
// strides where the layout is dense, "align 16" too, and "//" begins a comment.
//
// INVALID_ARGUMENT with `where` "line:column" and what was expected there. Any bytes are safe to read.
absl::StatusOr<Graph> ParseGraph(absl::string_view text);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_PARSE_H_
