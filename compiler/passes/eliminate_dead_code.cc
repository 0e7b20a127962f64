#include "compiler/passes/eliminate_dead_code.h"

#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {

absl::StatusOr<ir::Graph> EliminateDeadCode(const ir::Graph& graph) {
  std::vector<bool> live = rewrite::LiveNodes(graph);
  rewrite::Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) {
    if (live[node.id()]) RETURN_IF_ERROR(r.Copy(node));
  }
  return r.Finish();
}

}  // namespace preheat::passes
