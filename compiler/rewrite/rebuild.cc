#include "compiler/rewrite/rebuild.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"

namespace preheat::rewrite {

using ir::Node;
using ir::Value;

Rebuild::Rebuild(const ir::Graph& from) : from_(from), values_(from), builder_(&to_) {
  ir::CloneBoundary(from, to_);
  for (size_t i = 0; i < from.inputs().size(); ++i) values_[from.input_values()[i]] = to_.input_values()[i];
}

std::vector<Value> Rebuild::MapAll(absl::Span<const Value> old) const {
  std::vector<Value> mapped;
  mapped.reserve(old.size());
  for (const Value& value : old) mapped.push_back(Map(value));
  return mapped;
}

absl::Status Rebuild::Copy(const Node& node) {
  builder_.SetDebugId(node.debug_id());
  if (node.op() == ir::Op::kInput) return absl::OkStatus();
  std::vector<Value> operands = MapAll(node.operands());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] && operands[i].type() == node.operand(static_cast<int>(i)).type()) continue;
    RETURN_IF_ERROR(builder_.status());
    return absl::InternalError(absl::StrCat("operand ", i, " of node ", node.id(), " has no value of its type"));
  }
  const Node* copy = to_.AddCopy(node, std::move(operands));
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
