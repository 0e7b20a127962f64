#ifndef PREHEAT_COMPILER_PASSES_LAY_OUT_CONVOLUTIONS_H_
#define PREHEAT_COMPILER_PASSES_LAY_OUT_CONVOLUTIONS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// A GPU's convolutions want their three tensors to lie alike: with channels last, which is fast, or with channels
// first, where the caller wants the result so and nothing before it has its channels last (graphs that save everything
// for a backward pass, and those passes). What lies otherwise is copied: a pad by nothing, which is a value of its own
// to schedule/fuse.h, and seen permuted where channels are last.
//
// Must be the last pass: others would take the copies for nothing.
absl::StatusOr<ir::Graph> LayOutConvolutions(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_LAY_OUT_CONVOLUTIONS_H_
