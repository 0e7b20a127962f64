#include "compiler/build_plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/assign_memory.h"
#include "compiler/codegen/cuda/batch_kernels.h"
#include "compiler/kernel_memo.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/plan_memory.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat {

using artifact::Storage;
using ir::Expr;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;

namespace {

constexpr int64_t kElementsPerThread = 8192;  // least work worth a thread

Expr BytesOf(const ir::TensorType& type) { return type.NumElements() * Expr(ir::DTypeSize(type.dtype)); }

const char* RegionName(schedule::RegionKind kind) {
  switch (kind) {
    case schedule::RegionKind::kPointwise: return "pointwise";
    case schedule::RegionKind::kRow: return "row";
    case schedule::RegionKind::kColumn: return "column";
    case schedule::RegionKind::kNode: return "node";
  }
  return "";
}

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, const schedule::Layouts& layouts, const schedule::Partition& partition,
              const std::vector<std::string>& op_names, const std::vector<std::string>& locations, DeviceKind device,
              const codegen::Schedules& schedules)
      : graph_(graph),
        layouts_(layouts),
        partition_(partition),
        op_names_(op_names),
        locations_(locations),
        device_(device),
        schedules_(schedules),
        sizes_(graph.SymbolRanges()),
        memo_(layouts, sizes_, device) {}

  absl::StatusOr<BuiltPlan> Run() {
    MakeBoundary();
    for (const schedule::Step& step : partition_.steps) RETURN_IF_ERROR(AddStep(step));
    RETURN_IF_ERROR(CopyOutputs());
    AddSources();
    AssignMemory(plan(), lives_, in_place_, /*lend=*/device_ == DeviceKind::kCpu);
    NameErrorSites();
    return std::move(built_);
  }

 private:
  artifact::Plan& plan() { return built_.plan; }

  uint32_t AddBuffer(const ir::TensorType& type, std::vector<Expr> strides, Storage storage, uint32_t index) {
    artifact::Buffer buffer;
    buffer.type = type;
    buffer.strides = std::move(strides);
    buffer.storage = storage;
    buffer.index = index;
    buffer.bytes = BytesOf(type);
    plan().buffers.push_back(std::move(buffer));
    return static_cast<uint32_t>(plan().buffers.size() - 1);
  }

  // --- Boundary ---

  void MakeBoundary() {
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

  // A direct output under another shape: the value's own buffer and the boundary's share the caller's memory.
  uint32_t OutputView(const ir::GraphOutput& out, Value direct, uint32_t own, size_t index) {
    buffers_[direct] = own;
    return AddBuffer(out.value.type(), out.strides, Storage::kOutput, static_cast<uint32_t>(index));
  }

  uint32_t BufferOf(Value value, bool in_prologue) {
    auto it = buffers_.find(value);
    if (it != buffers_.end()) return it->second;
    if (value.node->op() == Op::kConstant) return buffers_[value] = AddConstant(value);
    Storage storage = in_prologue ? Storage::kSession : Storage::kArena;
    return buffers_[value] = AddBuffer(value.type(), layouts_.StridesOf(value), storage, 0);
  }

  uint32_t AddConstant(Value value) {
    std::string& pool = plan().constants;
    pool.resize((pool.size() + schedule::kBufferAlignment - 1) / schedule::kBufferAlignment *
                schedule::kBufferAlignment);
    uint32_t buffer = AddBuffer(value.type(), ir::RowMajorStrides(value.shape()), Storage::kConstant, 0);
    plan().buffers[buffer].offset = static_cast<int64_t>(pool.size());
    pool += value.node->String("data");
    return buffer;
  }

  // --- Steps ---

  std::vector<Value> InputsOf(const schedule::Step& step) const {
    if (step.region) return step.region->inputs;
    std::vector<Value> inputs;
    for (Value operand : step.call->operands()) inputs.push_back(schedule::MemoryOf(operand, layouts_, sizes_));
    return inputs;
  }
  static std::vector<Value> OutputsOf(const schedule::Step& step) {
    if (step.region) return step.region->outputs;
    std::vector<Value> outputs;
    for (size_t i = 0; i < step.call->results().size(); ++i) outputs.push_back(step.call->result(static_cast<int>(i)));
    return outputs;
  }

  bool Frozen(Value value) const { return frozen_.count(value) || value.node->op() == Op::kConstant; }

  // A step whose inputs are all frozen runs once a session. Results that are outputs, and programs without frozen
  // inputs, stay with the run.
  bool BelongsToPrologue(const schedule::Step& step) const {
    if (frozen_.empty() || (step.call && step.call->op() == Op::kExtern)) return false;
    std::vector<Value> inputs = InputsOf(step);
    if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(), [&](Value v) { return Frozen(v); })) return false;
    std::vector<Value> outputs = OutputsOf(step);
    return std::all_of(outputs.begin(), outputs.end(),
                       [&](Value v) { return !buffers_.count(v) && v.type().NumElements().is_constant(); });
  }

  absl::Status AddStep(const schedule::Step& step) {
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

  // A kernel of the run, as its schedule has it.
  void AddSite(const schedule::Region& region, RegionKernel made) {
    Site site;
    site.name = made.kernel->code.symbol;
    site.identity = SiteIdentity(*made.kernel);
    const codegen::Schedule& schedule = schedules_.For(site.name);
    if (!schedule.empty()) {
      absl::StatusOr<RegionKernel> other = memo_.Generate(region, schedule);
      if (other.ok()) made = *std::move(other);
    }
    const int64_t grain = GrainOf(*made.kernel, schedule);
    site.variant = absl::StrCat(made.kernel->code.symbol, " ", grain);
    const size_t before = plan().steps.size();
    AddKernel(made, nullptr, /*prologue=*/false, grain);
    if (plan().steps.size() == before) return;  // it has joined the step before, which is a site already
    site.step = before;
    built_.sites.push_back(std::move(site));
  }

  const std::string& SiteIdentity(const GeneratedKernel& kernel) {
    std::string& identity = identities_[&kernel];
    if (identity.empty()) {
      identity = Digest(
          absl::StrCat(kernel.code.source, kernel.loops.extent.ToString(), " ", kernel.loops.scratch_bytes.ToString()));
    }
    return identity;
  }

  static int64_t GrainOf(const GeneratedKernel& kernel, const codegen::Schedule& schedule = {}) {
    const int64_t elements = codegen::KnobValue(schedule, "grain").value_or(kElementsPerThread);
    auto work = kernel.loops.work.constant();
    return work && *work > 0 ? std::max<int64_t>(1, elements / *work) : 1;
  }

  // `joins`: the step becomes part of the last one.
  void Touch(uint32_t buffer, bool prologue, bool joins = false) {
    int now = static_cast<int>(plan().steps.size()) - (joins ? 1 : 0);
    if (prologue) now = -1;
    auto [it, fresh] = lives_.try_emplace(buffer, std::pair{now, now});
    if (!fresh) it->second.second = std::max(it->second.second, now);
  }

  void Append(artifact::Step step, bool prologue) {
    (prologue ? plan().prologue : plan().steps).push_back(std::move(step));
    built_.order.push_back(prologue);
  }

  // `target`: the buffer that a copy writes; otherwise every value's own.
  void AddKernel(const RegionKernel& made, const uint32_t* target, bool prologue, int64_t grain = 0) {
    artifact::KernelStep step = MakeStep(made, target, prologue);
    if (grain > 0) step.grain = grain;
    const bool joins = device_ == DeviceKind::kCuda && Joins(*made.kernel, step, prologue);
    for (uint32_t buffer : step.buffers) Touch(buffer, prologue, joins);
    if (joins) return Join(made, step, prologue);
    for (const codegen::InPlace& pair : made.kernel->loops.in_place) {
      step.in_place.push_back({pair.written, pair.read});
      const int now = static_cast<int>(plan().steps.size());
      if (!prologue) in_place_.push_back({now, step.buffers[pair.written], step.buffers[pair.read]});
    }
    step.kernel = static_cast<uint32_t>(plan().kernels.size());
    plan().kernels.push_back({"", "", 0, RegionName(made.kernel->kind), SourceOps(made)});
    pending_.push_back({made.kernel, static_cast<int64_t>(step.buffers.size()), 1});
    Append(std::move(step), prologue);
    built_.kernels.push_back(FactsOf(made));
  }

  static KernelFacts FactsOf(const RegionKernel& made) {
    const codegen::Kernel& loops = made.kernel->loops;
    const auto ops = std::count_if(loops.stmts.begin(), loops.stmts.end(),
                                   [](const codegen::Stmt& stmt) { return stmt.kind == codegen::Stmt::Kind::kOp; });
    return {made.buffers, loops.extent * loops.work, ops + static_cast<int64_t>(loops.accumulators.size())};
  }

  artifact::KernelStep MakeStep(const RegionKernel& made, const uint32_t* target, bool prologue) {
    const GeneratedKernel& kernel = *made.kernel;
    artifact::KernelStep step;
    for (const codegen::KernelBuffer& buffer : made.buffers) {
      step.buffers.push_back(buffer.written && target ? *target : BufferOf(buffer.value, prologue));
      step.writes.push_back(buffer.written);
    }
    for (const std::string& symbol : kernel.loops.symbols) step.scalars.push_back(Expr::Symbol(symbol));
    step.extent = kernel.loops.extent;
    if (device_ == DeviceKind::kCuda) {
      step.grid = {kernel.launch.grid};
      step.block = {static_cast<uint32_t>(kernel.launch.threads_x), static_cast<uint32_t>(kernel.launch.threads_y)};
      step.shared_bytes = kernel.launch.shared_bytes;
      step.scratch_bytes = kernel.launch.scratch_bytes;
    } else {
      step.scratch_bytes = kernel.loops.scratch_bytes;
    }
    step.grain = GrainOf(kernel);
    return step;
  }

  // --- Many small tensors: equal kernels that follow each other are one launch ---

  artifact::KernelStep* LastKernel(bool prologue) {
    auto& steps = prologue ? plan().prologue : plan().steps;
    return steps.empty() || pending_.empty() ? nullptr : std::get_if<artifact::KernelStep>(&steps.back());
  }

  // Whether the last step launches this kernel too and neither of the two needs to be before the other.
  bool Joins(const GeneratedKernel& kernel, const artifact::KernelStep& step, bool prologue) {
    const artifact::KernelStep* last = LastKernel(prologue);
    if (last == nullptr || last->kernel + 1 != pending_.size()) return false;
    const Pending& pending = pending_.back();
    if (pending.kernel->code.symbol != kernel.code.symbol || last->grid[0] != step.grid[0] ||
        last->extent != step.extent || last->scalars != step.scalars || step.scratch_bytes != Expr(0))
      return false;
    if ((pending.count + 1) * pending.buffers > codegen::kMostPointers) return false;
    for (size_t i = 0; i < step.buffers.size(); ++i) {
      for (size_t j = 0; j < last->buffers.size(); ++j) {
        if (step.buffers[i] == last->buffers[j] && (step.writes[i] || last->writes[j])) return false;
      }
    }
    return true;
  }

  void Join(const RegionKernel& made, const artifact::KernelStep& step, bool prologue) {
    artifact::KernelStep& last = *LastKernel(prologue);
    last.buffers.insert(last.buffers.end(), step.buffers.begin(), step.buffers.end());
    last.writes.insert(last.writes.end(), step.writes.begin(), step.writes.end());
    last.grid = {step.grid[0], Expr(++pending_.back().count)};
    auto& buffers = built_.kernels.back().buffers;
    buffers.insert(buffers.end(), made.buffers.begin(), made.buffers.end());
    std::vector<std::string>& ops = plan().kernels.back().ops;
    for (std::string& op : SourceOps(made)) {
      if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(std::move(op));
    }
  }

  // Each distinct source once, now that it is known how many buffers each launch takes.
  void AddSources() {
    std::unordered_map<std::string, uint32_t> sources;  // by symbol
    for (size_t i = 0; i < pending_.size(); ++i) {
      const Pending& pending = pending_[i];
      const codegen::EmittedKernel& one = pending.kernel->code;
      std::optional<codegen::EmittedKernel> many;
      if (pending.count > 1) many = codegen::BatchKernels(one, pending.buffers, pending.count);
      const codegen::EmittedKernel& code = many ? *many : one;
      auto [known, fresh] = sources.try_emplace(code.symbol, static_cast<uint32_t>(built_.sources.size()));
      const uint32_t source = known->second;
      artifact::Kernel& entry = plan().kernels[i];
      entry.name = entry.symbol = code.symbol;
      // On a CPU all kernels are linked into one object; a cubin holds one.
      entry.code = device_ == DeviceKind::kCuda ? source : 0;
      if (fresh) built_.sources.push_back(code);
    }
  }

  // The program's operators that a kernel computes: those of the nodes between its inputs and outputs.
  std::vector<std::string> SourceOps(const RegionKernel& made) const {
    std::set<Value> inputs;
    std::vector<Value> stack;
    for (const codegen::KernelBuffer& buffer : made.buffers) {
      if (buffer.written)
        stack.push_back(buffer.value);
      else
        inputs.insert(buffer.value);
    }
    std::set<const Node*> seen;
    std::set<int> debug_ids;
    while (!stack.empty()) {
      Value value = stack.back();
      stack.pop_back();
      if (inputs.count(value) || !seen.insert(value.node).second) continue;
      if (value.node->debug_id() >= 0) debug_ids.insert(value.node->debug_id());
      for (Value operand : value.node->operands()) stack.push_back(operand);
    }
    std::vector<std::string> ops;
    for (int id : debug_ids) {
      if (id < static_cast<int>(op_names_.size())) ops.push_back(op_names_[id]);
    }
    return ops;
  }

  absl::StatusOr<artifact::Operand> OperandOf(Value value) {
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

  artifact::Operand WholeOperand(Value value) {
    return {BufferOf(value, false), value.shape(), layouts_.StridesOf(value), Expr(0)};
  }

  absl::Status AddCall(const Node& node, bool prologue) {
    if (node.op() == Op::kExtern) return AddExtern(node);
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
    if (node.Has("scale")) step.scale = node.Double("scale");
    if (!prologue && !node.Has("scale")) AddSite(step);  // attention has one provider: nothing to choose
    Append(std::move(step), prologue);
    return absl::OkStatus();
  }

  void AddSite(artifact::LibraryStep& step) {
    Site site;
    site.step = plan().steps.size();
    site.name = site.identity = CallText(step);
    const codegen::Schedule& schedule = schedules_.For(site.name);
    if (auto provider = schedule.find("provider"); provider != schedule.end()) step.provider = provider->second;
    site.variant = absl::StrCat(site.name, " ", step.provider);
    built_.sites.push_back(std::move(site));
  }

  // "matmul f32[8,16]:16,1 f32[16,4]:1,16+f32[8,4] bias gelu": all that decides how long a call takes.
  std::string CallText(const artifact::LibraryStep& step) {
    std::string text = step.op;
    auto add = [&](const artifact::Operand& operand, bool frozen) {
      ir::TensorType type{plan().buffers[operand.buffer].type.dtype, operand.sizes};
      absl::StrAppend(&text, " ", type.ToString(), ":", absl::StrJoin(operand.strides, ",", AppendExpr),
                      frozen ? "!" : "");
    };
    for (size_t i = 0; i < step.operands.size(); ++i) add(step.operands[i], step.frozen[i]);
    add(step.result, false);
    for (const auto* numbers : {&step.stride, &step.padding, &step.dilation, &step.output_padding}) {
      if (!numbers->empty()) absl::StrAppend(&text, " ", absl::StrJoin(*numbers, ","));
    }
    if (step.op != "matmul") absl::StrAppend(&text, " groups ", step.groups, step.transposed ? " transposed" : "");
    for (const artifact::Epilogue& epilogue : step.epilogue) absl::StrAppend(&text, " ", epilogue.op);
    return text;
  }
  static void AppendExpr(std::string* out, const Expr& e) { absl::StrAppend(out, e.ToString()); }

  absl::Status AddExtern(const Node& node) {
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

  // --- The end ---

  // Outputs that are no value's own memory, and inputs that the program changes: written last, when nobody reads them
  // any more. A mutated input whose old value is also an output is copied out first.
  absl::Status CopyOutputs() {
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

  // What stands behind each index check in this program.
  void NameErrorSites() {
    std::vector<std::set<std::string>> names(codegen::kNumErrorSites);
    for (const Node& node : graph_.nodes()) {
      int site = node.op() == Op::kTake      ? 1
                 : node.op() == Op::kGather  ? 2
                 : node.op() == Op::kScatter ? 3
                 : node.op() == Op::kPutRows ? 4
                                             : 0;
      if (site == 0) continue;
      int id = node.debug_id();
      bool known = id >= 0 && id < static_cast<int>(op_names_.size());
      names[site - 1].insert(known ? op_names_[id] : std::string(ir::Info(node.op()).name));
    }
    for (const auto& set : names) plan().error_sites.push_back(absl::StrJoin(set, " or "));
  }

  const Graph& graph_;
  const schedule::Layouts& layouts_;
  const schedule::Partition& partition_;
  const std::vector<std::string>& op_names_;
  const std::vector<std::string>& locations_;
  const DeviceKind device_;
  const codegen::Schedules& schedules_;
  const ir::Ranges sizes_;
  KernelMemo memo_;
  std::unordered_map<const GeneratedKernel*, std::string> identities_;  // of what memo_ keeps
  std::map<Value, uint32_t> buffers_;
  BufferLives lives_;
  std::vector<InPlaceStep> in_place_;
  std::set<Value> frozen_;
  struct Pending {  // of plan().kernels
    std::shared_ptr<const GeneratedKernel> kernel;
    int64_t buffers, count;  // of one set, and sets
  };
  std::vector<Pending> pending_;
  BuiltPlan built_;
};

}  // namespace

absl::StatusOr<BuiltPlan> BuildPlan(const Graph& graph, const schedule::Layouts& layouts,
                                    const schedule::Partition& partition, const std::vector<std::string>& op_names,
                                    const std::vector<std::string>& locations, DeviceKind device,
                                    const codegen::Schedules& schedules) {
  return PlanBuilder(graph, layouts, partition, op_names, locations, device, schedules).Run();
}

}  // namespace preheat
