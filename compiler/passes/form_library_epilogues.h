#ifndef PREHEAT_COMPILER_PASSES_FORM_LIBRARY_EPILOGUES_H_
#define PREHEAT_COMPILER_PASSES_FORM_LIBRARY_EPILOGUES_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Makes one library call (Op::kFused) of a matmul or convolution and the elementwise operators behind it, as far
// as each value between has no other use: first a bias, then residuals and activations. Reshapes that keep the
// columns of a matmul may stand between. 16-bit floats may be widened to f32 and rounded again between:
// the library does the whole chain in f32 and rounds once.
//
// REQUIRES no dead code: a dead user keeps a chain from forming.
absl::StatusOr<ir::Graph> FormLibraryEpilogues(const ir::Graph& graph);

// The same for a GPU, whose libraries take less: a bias, a residual that lies as the result does, and then an
// activation: ReLU; tanh-GELU behind a matmul. Not in float64, nor behind transposed convolutions, nor where a
// convolution's result is an output: such a one may have to lie with channels first, and epilogues want them last.
absl::StatusOr<ir::Graph> FormGpuEpilogues(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_FORM_LIBRARY_EPILOGUES_H_
