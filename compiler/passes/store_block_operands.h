#ifndef PREHEAT_COMPILER_PASSES_STORE_BLOCK_OPERANDS_H_
#define PREHEAT_COMPILER_PASSES_STORE_BLOCK_OPERANDS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Stores what an If or a While reads by way of a view: its blocks are plans of their own, and take whole tensors.
absl::StatusOr<ir::Graph> StoreBlockOperands(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_STORE_BLOCK_OPERANDS_H_
