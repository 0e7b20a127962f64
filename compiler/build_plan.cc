#include "compiler/build_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "compiler/plan_builder.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/plan_memory.h"
#include "compiler/support/status_macros.h"

namespace preheat {

using artifact::Storage;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

namespace {

Expr BytesOf(const ir::TensorType& type) { return type.NumElements() * Expr(ir::DTypeSize(type.dtype)); }

}  // namespace

absl::StatusOr<BuiltPlan> PlanBuilder::Run() {
  MakeBoundary();
  for (const schedule::Step& step : partition_.steps) RETURN_IF_ERROR(AddStep(step));
  RETURN_IF_ERROR(CopyOutputs());
  AddSources();
  AssignMemory(plan(), lives_, in_place_, /*lend=*/device_ == DeviceKind::kCpu);
  NameErrorSites();
  return std::move(built_);
}

uint32_t PlanBuilder::AddBuffer(const ir::TensorType& type, std::vector<Expr> strides, Storage storage,
                                uint32_t index) {
  artifact::Buffer buffer;
  buffer.type = type;
  buffer.strides = std::move(strides);
  buffer.storage = storage;
  buffer.index = index;
  buffer.bytes = BytesOf(type);
  plan().buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(plan().buffers.size() - 1);
}

void PlanBuilder::MakeBoundary() {
  plan().symbols = graph_.symbols();
  plan().inputs = graph_.inputs();
  plan().outputs = graph_.outputs();
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const ir::GraphInput& in = graph_.inputs()[i];
    uint32_t buffer = AddBuffer(in.type, in.strides, Storage::kInput, static_cast<uint32_t>(i));
    plan().input_buffers.push_back(buffer);
    buffers_[graph_.input_values()[i]] = buffer;
    if (in.frozen) frozen_.insert(graph_.input_values()[i]);
  }
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::GraphOutput& out = graph_.outputs()[i];
    Value direct = layouts_.direct_outputs()[i];
    uint32_t buffer;
    if (out.mutates >= 0) {
      buffer = plan().input_buffers[out.mutates];
    } else {
      const ir::TensorType& type = direct ? direct.type() : out.value.type();
      buffer = AddBuffer(type, direct && direct != out.value ? layouts_.StridesOf(direct) : out.strides,
                         Storage::kOutput, static_cast<uint32_t>(i));
      if (direct && direct != out.value) buffer = OutputView(out, direct, buffer, i);
    }
    if (direct) {
      if (!buffers_.count(direct)) buffers_[direct] = buffer;
    }
    plan().output_buffers.push_back(buffer);
  }
}

uint32_t PlanBuilder::OutputView(const ir::GraphOutput& out, Value direct, uint32_t own, size_t index) {
  buffers_[direct] = own;
  return AddBuffer(out.value.type(), out.strides, Storage::kOutput, static_cast<uint32_t>(index));
}

uint32_t PlanBuilder::BufferOf(Value value, bool in_prologue) {
  auto it = buffers_.find(value);
  if (it != buffers_.end()) return it->second;
  if (value.node->op() == Op::kConstant) return buffers_[value] = AddConstant(value);
  Storage storage = in_prologue ? Storage::kSession : Storage::kArena;
  return buffers_[value] = AddBuffer(value.type(), layouts_.StridesOf(value), storage, 0);
}

uint32_t PlanBuilder::AddConstant(Value value) {
  std::string& pool = plan().constants;
  pool.resize((pool.size() + schedule::kBufferAlignment - 1) / schedule::kBufferAlignment * schedule::kBufferAlignment);
  uint32_t buffer = AddBuffer(value.type(), ir::RowMajorStrides(value.shape()), Storage::kConstant, 0);
  plan().buffers[buffer].offset = static_cast<int64_t>(pool.size());
  pool += value.node->String("data");
  return buffer;
}

std::vector<Value> PlanBuilder::InputsOf(const schedule::Step& step) const {
  if (step.region) return step.region->inputs;
  std::vector<Value> inputs;
  for (Value operand : step.call->operands()) inputs.push_back(schedule::MemoryOf(operand, layouts_, sizes_));
  return inputs;
}

std::vector<Value> PlanBuilder::OutputsOf(const schedule::Step& step) {
  if (step.region) return step.region->outputs;
  return ResultsOf(*step.call);
}

bool PlanBuilder::BelongsToPrologue(const schedule::Step& step) const {
  const bool stays = step.call && (step.call->op() == Op::kExtern || ir::IsControl(step.call->op()));
  if (frozen_.empty() || stays) return false;
  std::vector<Value> inputs = InputsOf(step);
  if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(), [&](Value v) { return Frozen(v); })) return false;
  std::vector<Value> outputs = OutputsOf(step);
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](Value v) { return !buffers_.count(v) && v.type().NumElements().is_constant(); });
}

absl::Status PlanBuilder::AddStep(const schedule::Step& step) {
  bool prologue = BelongsToPrologue(step);
  if (prologue) {
    for (Value v : OutputsOf(step)) frozen_.insert(v);
  }
  if (!step.region) {
    for (Value v : InputsOf(step)) Touch(BufferOf(v, prologue), prologue);
    for (Value v : OutputsOf(step)) Touch(BufferOf(v, prologue), prologue);
    return AddCall(*step.call, prologue);
  }
  ASSIGN_OR_RETURN(RegionKernel kernel, memo_.Generate(*step.region));
  if (prologue) {
    AddKernel(kernel, nullptr, prologue);
    return absl::OkStatus();
  }
  AddSite(*step.region, std::move(kernel));
  return absl::OkStatus();
}

void PlanBuilder::Touch(uint32_t buffer, bool prologue, bool joins) {
  int now = static_cast<int>(plan().steps.size()) - (joins ? 1 : 0);
  if (prologue) now = -1;
  auto [it, fresh] = lives_.try_emplace(buffer, std::pair{now, now});
  if (!fresh) it->second.second = std::max(it->second.second, now);
}

void PlanBuilder::Append(artifact::Step step, bool prologue) {
  (prologue ? plan().prologue : plan().steps).push_back(std::move(step));
  built_.order.push_back(prologue);
}

std::vector<Value> PlanBuilder::ResultsOf(const Node& node) {
  std::vector<Value> results;
  for (size_t i = 0; i < node.results().size(); ++i) results.push_back(node.result(static_cast<int>(i)));
  return results;
}

absl::Status PlanBuilder::CopyOutputs() {
  std::vector<size_t> order;
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    if (!layouts_.direct_outputs()[i]) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return (graph_.outputs()[a].mutates >= 0) < (graph_.outputs()[b].mutates >= 0);
  });
  for (size_t i : order) {
    const ir::GraphOutput& out = graph_.outputs()[i];
    uint32_t target = plan().output_buffers[i];
    std::vector<Expr> strides = out.mutates >= 0 ? graph_.inputs()[out.mutates].strides : out.strides;
    ASSIGN_OR_RETURN(RegionKernel copy, memo_.Copy(out.value, strides));
    AddKernel(copy, &target, false);
  }
  return absl::OkStatus();
}

namespace {

// The codegen::ErrorSite of a node; 0: none.
int SiteOf(const Node& node) {
  using codegen::ErrorSite;
  switch (node.op()) {
    case Op::kTake: return static_cast<int>(ErrorSite::kTake);
    case Op::kGather: return static_cast<int>(ErrorSite::kGather);
    case Op::kScatter: return static_cast<int>(ErrorSite::kScatter);
    case Op::kPutRows: return static_cast<int>(ErrorSite::kPutRows);
    default: break;
  }
  const bool divides = ir::IsDivision(node.op()) && ir::IsInteger(node.results()[0].dtype);
  return divides ? static_cast<int>(ErrorSite::kDivision) : 0;
}

}  // namespace

void PlanBuilder::NameErrorSites() {
  std::vector<std::set<std::string>> names(codegen::kNumErrorSites);
  for (const Node& node : graph_.nodes()) {
    const int site = SiteOf(node);
    if (site == 0) continue;
    int id = node.debug_id();
    bool known = id >= 0 && id < static_cast<int>(op_names_.size());
    names[site - 1].insert(known ? op_names_[id] : std::string(ir::Info(node.op()).name));
  }
  for (const auto& set : names) plan().error_sites.push_back(absl::StrJoin(set, " or "));
}

absl::StatusOr<BuiltPlan> BuildPlan(const ir::Graph& graph, const schedule::Layouts& layouts,
                                    const schedule::Partition& partition, const std::vector<std::string>& op_names,
                                    const std::vector<std::string>& locations, DeviceKind device,
                                    const codegen::Schedules& schedules, const BuildBlock& build_block) {
  return PlanBuilder(graph, layouts, partition, op_names, locations, device, schedules, build_block).Run();
}

}  // namespace preheat
