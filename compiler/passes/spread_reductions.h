#ifndef PREHEAT_COMPILER_PASSES_SPREAD_REDUCTIONS_H_
#define PREHEAT_COMPILER_PASSES_SPREAD_REDUCTIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Blocks of threads that keep a large GPU busy.
inline constexpr int64_t kBusyBlocks = 1056;

// For GPUs: a reduction whose results alone give too few blocks of threads work is done in two, parts of what is
// reduced first, which are many, and their results then. Counted as codegen/cuda lays them out: a block has 128
// neighbouring columns where the last dimension or the one that is innermost in memory is kept, else one result. Rows
// are split only when they are so long (kLongRow) that it pays to give up a kernel with what follows. Dimensions of
// constant size only; where no divisor serves, sums are filled up with zeros.
absl::StatusOr<ir::Graph> SpreadReductions(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_SPREAD_REDUCTIONS_H_
