#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/batch_kernels.h"
#include "compiler/codegen/kernel_cost.h"
#include "compiler/plan_builder.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat {

using ir::Expr;
using ir::Node;
using ir::Value;

namespace {

const char* RegionName(schedule::RegionKind kind) {
  switch (kind) {
    case schedule::RegionKind::kPointwise: return "pointwise";
    case schedule::RegionKind::kRow: return "row";
    case schedule::RegionKind::kColumn: return "column";
    case schedule::RegionKind::kNode: return "node";
  }
  return "";
}

}  // namespace

void PlanBuilder::AddSite(const schedule::Region& region, RegionKernel made) {
  Site site;
  site.name = made.kernel->code.symbol;
  site.identity = SiteIdentity(*made.kernel);
  const codegen::Schedule& schedule = schedules_.For(site.name);
  if (!schedule.empty()) {
    absl::StatusOr<RegionKernel> other = memo_.Generate(region, schedule);
    if (other.ok()) made = *std::move(other);
  }
  const int64_t grain = GrainOf(*made.kernel, schedule);
  const auto extent = made.kernel->loops.extent.constant();
  site.variant = extent ? made.kernel->code.symbol : absl::StrCat(made.kernel->code.symbol, " ", grain);
  if (extent) site.threads = std::max<int64_t>(1, *extent / grain);
  const size_t before = plan().steps.size();
  AddKernel(made, nullptr, /*prologue=*/false, grain);
  if (plan().steps.size() == before) return;  // it has joined the step before, which is a site already
  site.step = before;
  built_.sites.push_back(std::move(site));
}

const std::string& PlanBuilder::SiteIdentity(const GeneratedKernel& kernel) {
  std::string& identity = identities_[&kernel];
  if (identity.empty()) {
    identity = Digest(
        absl::StrCat(kernel.code.source, kernel.loops.extent.ToString(), " ", kernel.loops.scratch_bytes.ToString()));
  }
  return identity;
}

int64_t PlanBuilder::GrainOf(const GeneratedKernel& kernel, const codegen::Schedule& schedule) {
  const int64_t least = codegen::KnobValue(schedule, "thread_ns").value_or(codegen::kWorthAThread);
  return codegen::GrainFor(kernel.loops, least);
}

void PlanBuilder::AddKernel(const RegionKernel& made, const uint32_t* target, bool prologue, int64_t grain) {
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

KernelFacts PlanBuilder::FactsOf(const RegionKernel& made) {
  const codegen::Kernel& loops = made.kernel->loops;
  const auto ops = std::count_if(loops.stmts.begin(), loops.stmts.end(),
                                 [](const codegen::Stmt& stmt) { return stmt.kind == codegen::Stmt::Kind::kOp; });
  return {made.buffers, loops.extent * loops.work, ops + static_cast<int64_t>(loops.accumulators.size())};
}

artifact::KernelStep PlanBuilder::MakeStep(const RegionKernel& made, const uint32_t* target, bool prologue) {
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

artifact::KernelStep* PlanBuilder::LastKernel(bool prologue) {
  auto& steps = prologue ? plan().prologue : plan().steps;
  return steps.empty() || pending_.empty() ? nullptr : std::get_if<artifact::KernelStep>(&steps.back());
}

bool PlanBuilder::Joins(const GeneratedKernel& kernel, const artifact::KernelStep& step, bool prologue) {
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

void PlanBuilder::Join(const RegionKernel& made, const artifact::KernelStep& step, bool prologue) {
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

void PlanBuilder::AddSources() {
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
  for (const BuiltPlan& block : built_.blocks) {
    for (const codegen::EmittedKernel& code : block.sources) {
      if (sources.try_emplace(code.symbol, 0).second) built_.sources.push_back(code);
    }
  }
}

std::vector<std::string> PlanBuilder::SourceOps(const RegionKernel& made) const {
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

}  // namespace preheat
