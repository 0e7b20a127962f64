#ifndef PREHEAT_COMPILER_STORE_ATTENTION_ROWS_H_
#define PREHEAT_COMPILER_STORE_ATTENTION_ROWS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat {

// Stores what attention on a GPU reads or writes in rows that are not contiguous or not aligned to 16 bytes, and log
// sums that are not dense: cuDNN's engines take no others. To be run behind all passes: it goes by the layouts that
// scheduling will find.
absl::StatusOr<ir::Graph> StoreAttentionRows(const ir::Graph& graph);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_STORE_ATTENTION_ROWS_H_
