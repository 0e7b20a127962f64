#ifndef PREHEAT_COMPILER_PASSES_ELIMINATE_COMMON_H_
#define PREHEAT_COMPILER_PASSES_ELIMINATE_COMMON_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Computes once what is computed twice: equal operator, operands, attributes and types. Operators with an
// effect (extern calls, which may be random) are never merged.
absl::StatusOr<ir::Graph> EliminateCommon(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_ELIMINATE_COMMON_H_
