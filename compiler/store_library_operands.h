#ifndef PREHEAT_COMPILER_STORE_LIBRARY_OPERANDS_H_
#define PREHEAT_COMPILER_STORE_LIBRARY_OPERANDS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat {

// Stores what a GPU's libraries read or write where it lies as they do not take it. Attention (cuDNN): rows that are
// not contiguous or not aligned to 16 bytes, log sums that are not dense. Matrix products (cuBLASLt): matrices that are
// contiguous along neither dimension or repeat an element; with a bias or a residual, results whose rows are not
// contiguous, and such residuals. Of strides that are known only at run time the usual ones are assumed. To be run
// behind all passes: it goes by the layouts that scheduling will find.
absl::StatusOr<ir::Graph> StoreLibraryOperands(const ir::Graph& graph);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_STORE_LIBRARY_OPERANDS_H_
