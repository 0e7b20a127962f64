#ifndef PREHEAT_COMPILER_PASSES_SPLIT_REDUCTIONS_H_
#define PREHEAT_COMPILER_PASSES_SPLIT_REDUCTIONS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// A reduction with fewer results than this cannot keep a machine busy by itself...
inline constexpr int64_t kFewResults = 64;
// ...which matters from this many inputs a result on.
inline constexpr int64_t kManyInputs = int64_t{1} << 15;

// Splits reductions of constant shape with few results and many inputs into two, one after the other: over some
// dimensions first, where several are reduced; otherwise over parts of the longest one (a reshape). The
// first has results enough for all threads, and sums of sums are more accurate than one long sum. A size
// without a divisor that serves stays.
absl::StatusOr<ir::Graph> SplitReductions(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_SPLIT_REDUCTIONS_H_
