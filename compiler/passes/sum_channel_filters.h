#ifndef PREHEAT_COMPILER_PASSES_SUM_CHANNEL_FILTERS_H_
#define PREHEAT_COMPILER_PASSES_SUM_CHANNEL_FILTERS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Makes sums of windows' products of convolutions that have one filter for each channel, with what follows them
// (FormGpuEpilogues). On a GPU these read little more than they write, and a column kernel of ours, which has channels
// side by side and what follows in registers, is several times faster than the library.
//
// Where the input has its channels last and the result is no output; filters of up to 128 elements, no float64. The
// filter is stored with its channels last, and a padded input with its padding, so that no product asks where it is:
// pads by nothing, as in lay_out_convolutions.h.
absl::StatusOr<ir::Graph> SumChannelFilters(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_SUM_CHANNEL_FILTERS_H_
