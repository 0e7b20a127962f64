#ifndef PREHEAT_COMPILER_PASSES_PUT_FEW_ROWS_H_
#define PREHEAT_COMPILER_PASSES_PUT_FEW_ROWS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// For GPUs: many rows added into a few (the gradient of an embedding of token types) would be one block's work, since
// who owns a row adds all that goes there. Instead each of the few rows is a sum over all places, of those that name
// it: a reduction, which spread_reductions shares out. Indices are checked as before. f32 and f64, along dimension 0,
// constant sizes.
absl::StatusOr<ir::Graph> PutFewRows(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_PUT_FEW_ROWS_H_
