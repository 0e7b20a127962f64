#ifndef PREHEAT_COMPILER_PASSES_CHOOSE_CHANNELS_LAST_H_
#define PREHEAT_COMPILER_PASSES_CHOOSE_CHANNELS_LAST_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Lets convolutions and what follows them work with channels last, the layout in which matrix units and vector loops
// find a whole pixel side by side.
//
// A value [n, c, s...] has a twin [n, s..., c] where it comes from a convolution (or from a permutation of such a
// value). Elementwise operators, reductions, windows, slices, paddings and reshapes of the pixels of values with twins
// are computed on the twins, and who permutes such a value to channels last (an image to tokens) gets the twin;
// everybody else sees the twin permuted back, a view. schedule/layout.h stores a convolution's result as its twin lies.
//
// A convolution whose result is an output keeps the layout that the caller asked for, and so do those of graphs that
// save all of them for a backward pass.
absl::StatusOr<ir::Graph> ChooseChannelsLast(const ir::Graph& graph);

// For GPUs, whose neighbouring threads want neighbouring memory: the same, and images that the caller passes with their
// channels last (what was saved for a backward pass) have twins, too, also where there are gradients only, and so have
// gradients by images that are made of such values.
absl::StatusOr<ir::Graph> ChooseGpuChannelsLast(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_CHOOSE_CHANNELS_LAST_H_
