#ifndef PREHEAT_COMPILER_PASSES_ELIMINATE_DEAD_CODE_H_
#define PREHEAT_COMPILER_PASSES_ELIMINATE_DEAD_CODE_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Drops nodes that no output and no node with an effect needs. Inputs stay: their numbers are the caller's.
absl::StatusOr<ir::Graph> EliminateDeadCode(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_ELIMINATE_DEAD_CODE_H_
