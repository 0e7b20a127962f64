#include "compiler/read_block.h"

#include "absl/status/status.h"
#include "compiler/ir/parse.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

using ir::Graph;
using ir::Value;

void CopyNodes(const Graph& from, ir::ValueMap<Value>& values, Graph& to) {
  for (const ir::Node& node : from.nodes()) {
    if (node.op() == ir::Op::kInput) continue;
    std::vector<Value> operands;
    for (Value operand : node.operands()) operands.push_back(values[operand]);
    const ir::Node* copy = to.AddCopy(node, std::move(operands));
    for (int i = 0; i < static_cast<int>(node.results().size()); ++i) values[node.result(i)] = copy->result(i);
  }
}

}  // namespace

absl::StatusOr<Graph> ReadBlock(const std::string& text, const StrideLists& inputs, const StrideLists& outputs) {
  ASSIGN_OR_RETURN(const Graph from, ir::ParseGraph(text));
  if (from.inputs().size() != inputs.size() || from.outputs().size() != outputs.size())
    return absl::InternalError("a block's boundary is not that of its control flow");
  Graph to;
  ir::ValueMap<Value> values(from);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ir::GraphInput input = from.inputs()[i];
    input.strides = inputs[i];
    input.alignment = static_cast<int>(ir::DTypeSize(input.type.dtype));
    values[from.input_values()[i]] = to.AddInput(std::move(input));
  }
  CopyNodes(from, values, to);
  for (size_t i = 0; i < outputs.size(); ++i) {
    ir::GraphOutput output = from.outputs()[i];
    output.value = values[output.value];
    output.strides = outputs[i];
    to.AddOutput(std::move(output));
  }
  return to;
}

}  // namespace preheat
