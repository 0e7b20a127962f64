#ifndef PREHEAT_COMPILER_PASSES_STORE_SWAPPED_INPUTS_H_
#define PREHEAT_COMPILER_PASSES_STORE_SWAPPED_INPUTS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Stores inputs that are written over other inputs and are written over themselves (a, b = b, a): those writes are the
// last that a run does, one after the other.
absl::StatusOr<ir::Graph> StoreSwappedInputs(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_STORE_SWAPPED_INPUTS_H_
