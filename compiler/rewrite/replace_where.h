#ifndef PREHEAT_COMPILER_REWRITE_REPLACE_WHERE_H_
#define PREHEAT_COMPILER_REWRITE_REPLACE_WHERE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/rewrite/rebuild.h"

namespace preheat::rewrite {

// The loop of a pass that only puts other values in the place of some: every node is copied, and what `better` makes
// with r.builder() stands for the node's result from then on; null leaves the node as it is. `better` is asked in
// order, once a node, when the node's copy is the last that was made.
absl::StatusOr<ir::Graph> ReplaceWhere(const ir::Graph& graph,
                                       absl::FunctionRef<ir::Value(const ir::Node& node, Rebuild& r)> better);

}  // namespace preheat::rewrite

#endif  // PREHEAT_COMPILER_REWRITE_REPLACE_WHERE_H_
