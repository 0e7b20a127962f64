#include "compiler/passes/eliminate_common.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/equal.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {

absl::StatusOr<ir::Graph> EliminateCommon(const ir::Graph& graph) {
  rewrite::Rebuild r(graph);
  std::unordered_multimap<size_t, const ir::Node*> first;  // by hash, the first of equal nodes of the new graph
  for (const ir::Node& node : graph.nodes()) {
    RETURN_IF_ERROR(r.Copy(node));
    if (node.op() == ir::Op::kInput || ir::Info(node.op()).effects == ir::Effects::kEffect) continue;
    // The copy's operands are representatives already, so equal expressions are equal nodes.
    const ir::Node* copy = r.Map(node.result()).node;
    const size_t hash = ir::HashOf(*copy);
    auto [begin, end] = first.equal_range(hash);
    auto known = std::find_if(begin, end, [&](const auto& entry) { return ir::EqualNodes(*entry.second, *copy); });
    if (known == end) {
      first.emplace(hash, copy);
      continue;
    }
    for (int i = 0; i < static_cast<int>(node.results().size()); ++i) {
      r.Replace(node.result(i), known->second->result(i));
    }
  }
  return r.Finish();
}

}  // namespace preheat::passes
