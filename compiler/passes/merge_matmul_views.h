#ifndef PREHEAT_COMPILER_PASSES_MERGE_MATMUL_VIEWS_H_
#define PREHEAT_COMPILER_PASSES_MERGE_MATMUL_VIEWS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Multiplies with as few batch dimensions as the views around a matmul allow:
//
//   [b..., m, k] x broadcast of [1..., k, n]   is  [b*m, k] x [k, n], seen as [b..., m, n]
//   batch dimensions of size 1                 go
//
// so that a weight shared by a batch is read once. Reshapes stay views; other batches keep their
// dimensions, since merging them could make a strided operand a copy.
absl::StatusOr<ir::Graph> MergeMatmulViews(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_MERGE_MATMUL_VIEWS_H_
