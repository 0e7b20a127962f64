#include "compiler/rewrite/replace_where.h"

#include "compiler/support/status_macros.h"

namespace preheat::rewrite {

absl::StatusOr<ir::Graph> ReplaceWhere(const ir::Graph& graph,
                                       absl::FunctionRef<ir::Value(const ir::Node&, Rebuild&)> better) {
  Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) {
    RETURN_IF_ERROR(r.Copy(node));
    if (ir::Value value = better(node, r)) r.Replace(node.result(), value);
  }
  return r.Finish();
}

}  // namespace preheat::rewrite
