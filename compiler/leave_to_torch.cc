#include "compiler/leave_to_torch.h"

#include <memory>
#include <set>
#include <string>

#include "absl/strings/match.h"

namespace preheat {
namespace {

using capture::AtenNode;
using capture::AtenProgram;

// The value that an argument names; -1 without.
int ValueOf(const AtenNode& node, const std::string& name) {
  const capture::Argument* argument = node.Find(name);
  const auto* value = argument != nullptr ? std::get_if<capture::ValueRef>(argument) : nullptr;
  return value != nullptr ? value->id : -1;
}

bool HasFilterAChannel(const AtenProgram& program, const AtenNode& node) {
  const int weight = ValueOf(node, "weight");
  if (weight < 0) return false;
  const std::vector<ir::Expr>& shape = program.values[static_cast<size_t>(weight)].type.tensor.shape;
  return shape.size() >= 3 && shape[1] == ir::Expr(1) && shape[0] != ir::Expr(1);
}

}  // namespace

std::function<bool(const AtenNode&)> LeaveToTorchOnGpu(const AtenProgram& program) {
  auto outputs = std::make_shared<std::set<int>>();
  for (const capture::OutputSpec& output : program.outputs) outputs->insert(output.value);
  return [&program, outputs](const AtenNode& node) {
    if (!absl::StartsWith(node.op, "aten.conv") || !HasFilterAChannel(program, node)) return false;
    if (node.op == "aten.convolution_backward.default") return true;
    return outputs->count(ValueOf(node, "input")) != 0 || outputs->count(node.results[0]) != 0;
  };
}

}  // namespace preheat
