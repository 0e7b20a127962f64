#include "compiler/passes/eliminate_common.h"

#include <string>
#include <unordered_map>

#include "compiler/ir/print.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {

absl::StatusOr<ir::Graph> EliminateCommon(const ir::Graph& graph) {
  rewrite::Rebuild r(graph);
  std::unordered_map<std::string, const ir::Node*> first;  // by a node's line without its number -> the old node
  for (const ir::Node& node : graph.nodes()) {
    RETURN_IF_ERROR(r.Copy(node));
    if (node.op() == ir::Op::kInput || ir::Info(node.op()).effects == ir::Effects::kEffect) continue;
    // The copy's operands are representatives already, so equal expressions have equal lines.
    std::string line = ir::Print(*r.Map(node.result()).node);
    auto [it, fresh] = first.try_emplace(line.substr(line.find('=')), &node);
    if (fresh) continue;
    for (int i = 0; i < static_cast<int>(node.results().size()); ++i) {
      r.Replace(node.result(i), r.Map(it->second->result(i)));
    }
  }
  return r.Finish();
}

}  // namespace preheat::passes
