#ifndef PREHEAT_COMPILER_PASSES_ALIGN_PRODUCTS_H_
#define PREHEAT_COMPILER_PASSES_ALIGN_PRODUCTS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Pads large matrix products of 16-bit floats whose rows lie at odd addresses (a vocabulary of 50,257) with zeros to
// multiples of 8 elements, and cuts the result. A GPU's tensor cores want rows of whole 16 bytes; without them a
// product takes several times as long as the copies that are made here. Dimensions of known size, from 2^32
// multiplications on.
absl::StatusOr<ir::Graph> AlignProducts(const ir::Graph& graph);

// The same from as many multiplications on.
absl::StatusOr<ir::Graph> AlignProductsFrom(const ir::Graph& graph, double multiplications);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_ALIGN_PRODUCTS_H_
