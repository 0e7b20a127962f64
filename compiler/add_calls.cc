#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/plan_builder.h"
#include "compiler/schedule/access.h"
#include "compiler/support/status_macros.h"

namespace preheat {

using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

namespace {

void AppendExpr(std::string* out, const Expr& e) { absl::StrAppend(out, e.ToString()); }

}  // namespace

absl::StatusOr<artifact::Operand> PlanBuilder::OperandOf(Value value) {
  auto strides_of = [&](Value v) { return layouts_.StridesOf(v); };
  auto view = schedule::PeelViews(value, strides_of, sizes_);
  artifact::Operand operand;
  operand.sizes = value.shape();
  if (view) {
    operand.buffer = BufferOf(view->base, false);
    operand.strides = view->strides;
    operand.offset = view->offset;
  } else {
    operand.buffer = BufferOf(value, false);
    operand.strides = layouts_.StridesOf(value);
  }
  return operand;
}

artifact::Operand PlanBuilder::WholeOperand(Value value) {
  return {BufferOf(value, false), value.shape(), layouts_.StridesOf(value), Expr(0)};
}

absl::Status PlanBuilder::AddCall(const Node& node, bool prologue) {
  if (node.op() == Op::kExtern) return AddExtern(node);
  if (ir::IsControl(node.op())) return node.op() == Op::kIf ? AddIf(node) : AddWhile(node);
  artifact::LibraryStep step;
  size_t operands = 2;
  step.op = node.op() == Op::kFused ? node.String("base") : std::string(ir::Info(node.op()).name);
  for (size_t i = 0; i < operands; ++i) {
    ASSIGN_OR_RETURN(artifact::Operand operand, OperandOf(node.operand(static_cast<int>(i))));
    step.operands.push_back(std::move(operand));
    step.frozen.push_back(Frozen(schedule::MemoryOf(node.operand(static_cast<int>(i)), layouts_, sizes_)));
  }
  step.result = WholeOperand(node.result());
  for (size_t i = 1; i < node.results().size(); ++i) {
    step.more_results.push_back(WholeOperand(node.result(static_cast<int>(i))));
  }
  if (node.Has("stride")) {
    step.stride = node.Ints("stride");
    step.padding = node.Ints("padding");
    step.dilation = node.Ints("dilation");
    if (node.Has("output_padding")) step.output_padding = node.Ints("output_padding");
    step.groups = node.Int("groups");
    if (node.Has("transposed")) step.transposed = node.Int("transposed") != 0;
  }
  if (node.op() == Op::kFused) {
    for (const std::string& op : node.Strings("epilogue")) {
      artifact::Epilogue epilogue{op, std::nullopt};
      if (ir::TakesOperand(op)) {
        ASSIGN_OR_RETURN(epilogue.operand, OperandOf(node.operand(static_cast<int>(operands++))));
      }
      step.epilogue.push_back(std::move(epilogue));
    }
  }
  const bool attention = node.Has("scale");  // which has one provider: nothing to choose
  if (attention) step.scale = node.Double("scale");
  if (!prologue && !attention) AddSite(step);
  if (!prologue && attention && device_ == DeviceKind::kCuda) AddPlanned(step);
  Append(std::move(step), prologue);
  return absl::OkStatus();
}

void PlanBuilder::AddSite(artifact::LibraryStep& step) {
  Site site;
  site.step = plan().steps.size();
  site.name = site.identity = CallText(step);
  const codegen::Schedule& schedule = schedules_.For(site.name);
  if (auto provider = schedule.find("provider"); provider != schedule.end()) step.provider = provider->second;
  if (auto rank = schedule.find("algorithm"); rank != schedule.end()) {
    auto kept = schedules_.algorithms.find(site.name);
    step.algorithm = kept != schedules_.algorithms.end() ? kept->second : rank->second;
  }
  site.variant = absl::StrCat(site.name, " ", step.provider, " ", step.algorithm);
  built_.sites.push_back(std::move(site));
}

void PlanBuilder::AddPlanned(artifact::LibraryStep& step) {
  PlannedCall call{plan().steps.size(), CallText(step)};
  auto kept = schedules_.algorithms.find(call.name);
  if (kept != schedules_.algorithms.end()) step.algorithm = kept->second;
  built_.planned.push_back(std::move(call));
}

std::string PlanBuilder::CallText(const artifact::LibraryStep& step) {
  std::string text = step.op;
  auto add = [&](const artifact::Operand& operand, bool frozen) {
    ir::TensorType type{plan().buffers[operand.buffer].type.dtype, operand.sizes};
    absl::StrAppend(&text, " ", type.ToString(), ":", absl::StrJoin(operand.strides, ",", AppendExpr),
                    frozen ? "!" : "");
  };
  for (size_t i = 0; i < step.operands.size(); ++i) add(step.operands[i], step.frozen[i]);
  add(step.result, false);
  for (const artifact::Operand& more : step.more_results) add(more, false);
  for (const auto* numbers : {&step.stride, &step.padding, &step.dilation, &step.output_padding}) {
    if (!numbers->empty()) absl::StrAppend(&text, " ", absl::StrJoin(*numbers, ","));
  }
  if (step.op != "matmul") absl::StrAppend(&text, " groups ", step.groups, step.transposed ? " transposed" : "");
  for (const artifact::Epilogue& epilogue : step.epilogue) {
    absl::StrAppend(&text, " ", epilogue.op);
    if (absl::StartsWith(step.op, "attention") && epilogue.operand) add(*epilogue.operand, false);
  }
  return text;
}

absl::Status PlanBuilder::AddExtern(const Node& node) {
  artifact::ExternStep step;
  step.op = node.String("name");
  step.call = node.String("call");
  int id = node.debug_id();
  if (id >= 0 && id < static_cast<int>(locations_.size())) step.location = locations_[id];
  for (Value value : node.operands()) {
    ASSIGN_OR_RETURN(artifact::Operand operand, OperandOf(value));
    step.operands.push_back(std::move(operand));
  }
  for (size_t i = 0; i < node.results().size(); ++i)
    step.results.push_back(BufferOf(node.result(static_cast<int>(i)), false));
  Append(std::move(step), false);
  return absl::OkStatus();
}

}  // namespace preheat
