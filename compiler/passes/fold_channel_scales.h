#ifndef PREHEAT_COMPILER_PASSES_FOLD_CHANNEL_SCALES_H_
#define PREHEAT_COMPILER_PASSES_FOLD_CHANNEL_SCALES_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Multiplies a convolution's filter by the scale of each output channel instead of its result, so that an inference
// batch norm becomes a bias:
//
//   conv(x, w) * s        =  conv(x, w * s)
//   (conv(x, w) + b) * s  =  conv(x, w * s) + b * s
//
// where filter and scale come from frozen inputs (the prologue then scales once), or the filter is much smaller than
// the result.
// Changes rounding, as every inference compiler does here, by no more than one rounding of each weight. Not for
// transposed convolutions.
absl::StatusOr<ir::Graph> FoldChannelScales(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_FOLD_CHANNEL_SCALES_H_
