#ifndef PREHEAT_COMPILER_PASSES_MULTIPLY_PATCHES_H_
#define PREHEAT_COMPILER_PASSES_MULTIPLY_PATCHES_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Makes matrix products of convolutions whose windows do not overlap: filters of one pixel, and patches (stride as long
// as the filter, no padding), with their gradients. A GPU's library has faster products than convolutions, and more
// epilogues for them. Pixels are rows, channels last, so that rows of one-pixel filters are views.
//
// For 16-bit floats without groups. One-pixel filters only between values that are neither inputs nor outputs: those
// lie as the caller wants, mostly channels first, and would have to be transposed; nor are their gradients touched.
absl::StatusOr<ir::Graph> MultiplyPatches(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_MULTIPLY_PATCHES_H_
