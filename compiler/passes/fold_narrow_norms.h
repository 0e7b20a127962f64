#ifndef PREHEAT_COMPILER_PASSES_FOLD_NARROW_NORMS_H_
#define PREHEAT_COMPILER_PASSES_FOLD_NARROW_NORMS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// FoldChannelScales for convolutions of 16-bit floats, whose results are widened before an inference batch norm scales
// and shifts them by channels:
//
//   f32(conv(x, w)) * s - m + b  =  f32(conv(x, 16-bit(w * s))) + 16-bit(b - m)
//
// so that the library adds one bias. Weights and bias are rounded once more, the convolution's result once less.
// Where a filter of several elements has to be stored anew anyway (lay_out_convolutions.h), or is smaller than what it
// spares to scale.
absl::StatusOr<ir::Graph> FoldNarrowNorms(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_FOLD_NARROW_NORMS_H_
