#ifndef PREHEAT_COMPILER_PASSES_KEEP_CHANNELS_LAST_H_
#define PREHEAT_COMPILER_PASSES_KEEP_CHANNELS_LAST_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// A convolution whose result goes straight into another one, as its image or as what it adds, is stored with channels
// last, too. choose_channels_last.h asks for that only where something in between has a twin; without it the result
// would lie row-major, and oneDNN, whose fast kernels want channels last, would turn it around at both ends.
//
// The result is seen through two views of nothing, the first of which schedule/layout.h looks for. So this must stand
// behind every pass that takes such views away.
absl::StatusOr<ir::Graph> KeepChannelsLast(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_KEEP_CHANNELS_LAST_H_
