#include "compiler/report.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/eager_cost.h"

namespace preheat {

using ir::Expr;

namespace {

// Sizes left as ranges count with their least value.
int64_t AtLeast(const Expr& e, const ir::Graph& graph) {
  return e.Evaluate([&](const std::string& name) {
    for (const ir::Symbol& s : graph.symbols()) {
      if (s.name == name) return s.min;
    }
    return int64_t{1};
  });
}

int64_t Bytes(const std::vector<Expr>& sizes, ir::DType dtype, const ir::Graph& graph) {
  return AtLeast(ir::NumElements(sizes), graph) * ir::DTypeSize(dtype);
}

KernelReport KernelRow(const artifact::Kernel& entry, const KernelFacts& kernel, const ir::Graph& graph) {
  KernelReport row{entry.name, entry.region, entry.ops, 0, 0};
  for (const codegen::KernelBuffer& buffer : kernel.buffers) {
    row.bytes += Bytes(buffer.value.shape(), buffer.dtype, graph);
  }
  row.flops = AtLeast(kernel.work, graph) * std::max<int64_t>(1, kernel.operations);
  return row;
}

KernelReport CallRow(const artifact::LibraryStep& step, const artifact::Plan& plan, const ir::Graph& graph) {
  KernelReport row{step.op, "library", {}, 0, 0};
  for (const artifact::Epilogue& e : step.epilogue) row.ops.push_back(e.op);
  for (const artifact::Operand& operand : step.operands) {
    row.bytes += Bytes(operand.sizes, plan.buffers[operand.buffer].type.dtype, graph);
  }
  row.bytes += Bytes(step.result.sizes, plan.buffers[step.result.buffer].type.dtype, graph);
  // Two operations for each product: the result's elements times what is summed over.
  Expr summed = step.op == "matmul" ? step.operands[0].sizes.back() : Expr(1);
  if (step.op == "conv") {
    const auto& w = step.operands[1].sizes;
    for (size_t i = 1; i < w.size(); ++i) summed = summed * w[i];
  }
  const Expr &width = step.operands[0].sizes.back(), &columns = step.operands[1].sizes.back();
  if (step.op == "attention") summed = width + columns;
  if (step.op == "attention_grad") summed = columns * 5;
  row.flops = 2 * AtLeast(ir::NumElements(step.result.sizes) * summed, graph);
  return row;
}

void AddExtern(const Canonical& canonical, const artifact::ExternStep& step, Report& report) {
  auto& entry = report.extern_calls[step.op];
  ++entry.first;
  auto why = canonical.left_to_torch.find(step.op);
  if (why != canonical.left_to_torch.end()) entry.second = absl::StrJoin(why->second, "; ");
}

// Kernels were generated in the partition's order, prologue and run mixed: built.order says which came when. Steps of
// control flow count for what is in their blocks.
void AddSteps(const Canonical& canonical, const artifact::Plan& plan, const ir::Graph& graph, const BuiltPlan& built,
              Report& report) {
  size_t generated = 0, prologue = 0, run = 0;
  for (bool in_prologue : built.order) {
    const artifact::Step& step = in_prologue ? plan.prologue[prologue++] : plan.steps[run++];
    const bool control =
        std::holds_alternative<artifact::IfStep>(step) || std::holds_alternative<artifact::WhileStep>(step);
    if (!in_prologue && !control) ++report.kernels_after;
    if (const auto* kernel = std::get_if<artifact::KernelStep>(&step)) {
      KernelReport row = KernelRow(plan.kernels[kernel->kernel], built.kernels[generated++], graph);
      if (!in_prologue) report.kernels.push_back(std::move(row));
    } else if (const auto* call = std::get_if<artifact::LibraryStep>(&step)) {
      if (in_prologue) continue;
      report.kernels.push_back(CallRow(*call, plan, graph));
      ++report.library_calls[call->op];
    } else if (const auto* extern_step = std::get_if<artifact::ExternStep>(&step)) {
      AddExtern(canonical, *extern_step, report);
    }
  }
  for (size_t i = 0; i < built.blocks.size(); ++i) {
    AddSteps(canonical, plan.subplans[i], *built.blocks[i].graph, built.blocks[i], report);
  }
}

void CountOps(const capture::AtenProgram& program, std::map<std::string, int>& ops) {
  for (const capture::AtenNode& node : program.nodes) {
    if (!node.IsControl()) ++ops[node.op];
    for (const capture::AtenProgram& block : node.blocks) CountOps(block, ops);
  }
}

// "model.py:12" is a file and a line.
void NoteBreaks(const capture::AtenProgram& program, Report& report) {
  for (const capture::AtenNode& node : program.nodes) {
    if (!node.IsControl()) continue;
    const bool known = node.debug_id >= 0 && node.debug_id < static_cast<int>(program.debug.locations.size());
    const std::string place = known ? program.debug.locations[node.debug_id].stack : "";
    const size_t colon = place.rfind(':');
    GraphBreak found{place.substr(0, colon), 0, ""};
    if (colon != std::string::npos) (void)absl::SimpleAtoi(place.substr(colon + 1), &found.line);
    found.reason = absl::StrCat(node.op == capture::kIfOp ? "a branch" : "a loop",
                                " depends on the contents of a tensor: its condition is read on the way");
    report.graph_breaks.push_back(std::move(found));
    for (const capture::AtenProgram& block : node.blocks) NoteBreaks(block, report);
  }
}

// A block's arena is there beside that of what it stands in.
int64_t ArenaBytes(const artifact::Plan& plan, const ir::Graph& graph) {
  int64_t inside = 0;
  for (const artifact::Plan& subplan : plan.subplans) inside = std::max(inside, ArenaBytes(subplan, graph));
  return AtLeast(plan.arena_bytes, graph) + inside;
}

}  // namespace

Report MakeReport(const Canonical& canonical, const ir::Graph& graph, const BuiltPlan& built) {
  const capture::AtenProgram& program = canonical.program;
  Report report;
  report.kernels_before = CountEagerKernels(program);
  report.peak_bytes_before = EagerPeakBytes(program);
  AddSteps(canonical, built.plan, graph, built, report);
  CountOps(program, report.native_ops);
  for (const auto& [op, entry] : report.extern_calls) report.native_ops[op] -= entry.first;
  std::erase_if(report.native_ops, [](const auto& entry) { return entry.second <= 0; });
  NoteBreaks(program, report);
  const artifact::Plan& plan = built.plan;
  report.peak_bytes_after = ArenaBytes(plan, graph);
  std::set<uint32_t> outputs(plan.output_buffers.begin(), plan.output_buffers.end());
  for (uint32_t buffer : outputs) {
    if (plan.buffers[buffer].storage == artifact::Storage::kOutput)
      report.peak_bytes_after += AtLeast(plan.buffers[buffer].bytes, graph);
  }
  return report;
}

}  // namespace preheat
