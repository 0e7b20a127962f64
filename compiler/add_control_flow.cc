#include <utility>

#include "compiler/plan_builder.h"
#include "compiler/support/status_macros.h"

namespace preheat {

using artifact::Storage;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

absl::StatusOr<uint32_t> PlanBuilder::AddBlock(const std::string& text, const StrideLists& inputs,
                                               const StrideLists& outputs) {
  if (!build_block_) return absl::InternalError("control flow in a program whose blocks cannot be built");
  ASSIGN_OR_RETURN(BuiltPlan block, build_block_(text, inputs, outputs));
  plan().subplans.push_back(std::move(block.plan));
  built_.blocks.push_back(std::move(block));
  return static_cast<uint32_t>(plan().subplans.size() - 1);
}

StrideLists PlanBuilder::StridesOf(const std::vector<Value>& values) const {
  StrideLists strides;
  for (Value value : values) strides.push_back(layouts_.StridesOf(value));
  return strides;
}

absl::Status PlanBuilder::AddIf(const Node& node) {
  artifact::IfStep step;
  step.condition = BufferOf(node.operand(0), false);
  const std::vector<Value> inputs(node.operands().begin() + 1, node.operands().end()), outputs = ResultsOf(node);
  const auto input_strides = StridesOf(inputs), output_strides = StridesOf(outputs);
  ASSIGN_OR_RETURN(step.then_plan, AddBlock(node.Strings("blocks")[0], input_strides, output_strides));
  ASSIGN_OR_RETURN(step.else_plan, AddBlock(node.Strings("blocks")[1], input_strides, output_strides));
  for (const std::vector<Value>& values : {inputs, outputs}) {
    for (Value value : values) step.buffers.push_back(BufferOf(value, false));
  }
  Append(std::move(step), false);
  return absl::OkStatus();
}

absl::Status PlanBuilder::AddWhile(const Node& node) {
  const std::vector<Value> results = ResultsOf(node);
  const Value condition = node.operand(0);
  std::vector<Value> state = {condition};
  state.insert(state.end(), results.begin(), results.end());
  state.insert(state.end(), node.operands().begin() + static_cast<int64_t>(state.size()), node.operands().end());
  artifact::WhileStep step;
  step.buffers = {AddBuffer(condition.type(), {}, Storage::kArena, 0)};
  for (size_t i = 1; i < state.size(); ++i) step.buffers.push_back(BufferOf(state[i], false));
  for (size_t i = 0; i <= results.size(); ++i) {
    const Value first = node.operand(static_cast<int>(i));
    ASSIGN_OR_RETURN(RegionKernel copy, memo_.Copy(first, layouts_.StridesOf(state[i])));
    AddKernel(copy, &step.buffers[i], false);
  }
  const auto strides = StridesOf(state);
  ASSIGN_OR_RETURN(step.condition_plan, AddBlock(node.Strings("blocks")[0], strides, {{}}));
  ASSIGN_OR_RETURN(step.body_plan, AddBlock(node.Strings("blocks")[1], strides,
                                            {strides.begin(), strides.begin() + 1 + results.size()}));
  for (uint32_t buffer : step.buffers) Touch(buffer, false);
  Append(std::move(step), false);
  return absl::OkStatus();
}

}  // namespace preheat
