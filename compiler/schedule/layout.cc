#include "compiler/schedule/layout.h"

#include <set>

namespace preheat::schedule {

using ir::GraphOutput;
using ir::Op;
using ir::Value;

namespace {

bool InMemory(Value value) { return value.node->op() == Op::kInput || value.node->op() == Op::kConstant; }

Value BelowReshapes(const GraphOutput& output) {
  Value value = output.value;
  if (output.strides != ir::RowMajorStrides(value.shape())) return value;
  while (value.node->op() == Op::kReshape) value = value.node->operand(0);
  return InMemory(value) ? output.value : value;
}

}  // namespace

Layouts::Layouts(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    strides_[graph.input_values()[i]] = graph.inputs()[i].strides;
  }
  std::set<Value> taken;
  for (const GraphOutput& output : graph.outputs()) {
    Value value = BelowReshapes(output);
    bool direct = output.mutates < 0 && !InMemory(value) && taken.insert(value).second;
    direct_.push_back(direct ? value : Value{});
    if (direct && value == output.value) strides_[value] = output.strides;
  }
}

std::vector<ir::Expr> Layouts::StridesOf(Value value) const {
  auto it = strides_.find(value);
  return it != strides_.end() ? it->second : ir::RowMajorStrides(value.shape());
}

}  // namespace preheat::schedule
