#include "compiler/rewrite/rebuild.h"

#include <utility>

#include "compiler/support/status_macros.h"

namespace preheat::rewrite {

using ir::Node;
using ir::Value;

Rebuild::Rebuild(const ir::Graph& from) : from_(from), values_(ir::CloneBoundary(from, to_)), builder_(&to_) {}

std::vector<Value> Rebuild::MapAll(absl::Span<const Value> old) const {
  std::vector<Value> mapped;
  mapped.reserve(old.size());
  for (const Value& value : old) mapped.push_back(Map(value));
  return mapped;
}

absl::Status Rebuild::Copy(const Node& node) {
  builder_.SetDebugId(node.debug_id());
  if (node.op() == ir::Op::kInput) return absl::OkStatus();
  bool declared = ir::Info(node.op()).rule == ir::TypeRule::kDeclared;
  std::vector<ir::TensorType> types;
  if (declared) types.assign(node.results().begin(), node.results().end());
  ASSIGN_OR_RETURN(const Node* copy,
                   to_.Add(node.op(), MapAll(node.operands()), node.attrs(), std::move(types), node.debug_id()));
  for (int i = 0; i < static_cast<int>(node.results().size()); ++i) values_[node.result(i)] = copy->result(i);
  return absl::OkStatus();
}

absl::StatusOr<ir::Graph> Rebuild::Finish() {
  RETURN_IF_ERROR(builder_.status());
  for (ir::GraphOutput output : from_.outputs()) {
    output.value = Map(output.value);
    to_.AddOutput(std::move(output));
  }
  return std::move(to_);
}

std::vector<bool> LiveNodes(const ir::Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  for (const ir::GraphOutput& output : graph.outputs()) live[output.value.node->id()] = true;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    bool kept =
        live[node->id()] || node->op() == ir::Op::kInput || ir::Info(node->op()).effects == ir::Effects::kEffect;
    live[node->id()] = kept;
    if (!kept) continue;
    for (const Value& operand : node->operands()) live[operand.node->id()] = true;
  }
  return live;
}

}  // namespace preheat::rewrite
