#include "compiler/passes/users.h"

namespace preheat::passes {

Users::Users(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    nodes_.emplace_back(node.results().size());
    for (const ir::Value& operand : node.operands()) {
      std::vector<const ir::Node*>& users = nodes_[operand.node->id()][operand.index];
      if (users.empty() || users.back() != &node) users.push_back(&node);
    }
  }
  for (const ir::GraphOutput& output : graph.outputs()) outputs_.insert(output.value);
}

}  // namespace preheat::passes
