#include "compiler/passes/store_block_operands.h"

#include <set>

#include "compiler/passes/stored.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {

absl::StatusOr<ir::Graph> StoreBlockOperands(const ir::Graph& graph) {
  rewrite::Rebuild r(graph);
  std::set<ir::Value> stored;
  for (const ir::Node& node : graph.nodes()) {
    for (ir::Value operand : node.operands()) {
      if (!ir::IsControl(node.op()) || !ir::IsView(operand.node->op()) || !stored.insert(operand).second) continue;
      r.Replace(operand, Stored(r.builder(), r.Map(operand)));
    }
    RETURN_IF_ERROR(r.Copy(node));
  }
  return r.Finish();
}

}  // namespace preheat::passes
