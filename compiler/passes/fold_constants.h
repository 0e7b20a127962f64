#ifndef PREHEAT_COMPILER_PASSES_FOLD_CONSTANTS_H_
#define PREHEAT_COMPILER_PASSES_FOLD_CONSTANTS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Results above this stay computed: as data they would cost more to carry and to read.
inline constexpr int64_t kMaxFoldedBytes = 4096;

// Evaluates what depends on constants only: fills stay fills, whatever their size; everything else becomes data
// of at most kMaxFoldedBytes, a fill where all elements are equal. Broadcasts and the like of data stay views.
// What would set the error word (an index out of range) is left for the run to report.
absl::StatusOr<ir::Graph> FoldConstants(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_FOLD_CONSTANTS_H_
