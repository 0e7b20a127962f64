#ifndef PREHEAT_COMPILER_PASSES_SPLIT_COLUMN_SUMS_H_
#define PREHEAT_COMPILER_PASSES_SPLIT_COLUMN_SUMS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Smaller sums over columns are done before a second kernel would have started.
inline constexpr int64_t kLeastColumnSum = int64_t{1} << 15;  // elements
inline constexpr int64_t kLeastBlock = 8, kMostBlock = 32;    // rows that are summed first
inline constexpr int64_t kLeastBlocks = 8;                    // enough to share out

// Splits sums over the leading dimensions, where rows of the same extent are reduced too (gradients of normalizations:
// the input's needs sums over rows, the weight's sums over columns of the same products). A block of rows is summed
// first, [rows, columns] as [blocks, rows of a block, columns], then the blocks. schedule/fuse.h puts the first part
// into the kernel that goes through the rows. Constant shapes only; rows without a divisor that serves stay whole.
absl::StatusOr<ir::Graph> SplitColumnSums(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_SPLIT_COLUMN_SUMS_H_
