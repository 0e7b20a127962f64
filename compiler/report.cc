#include "compiler/report.h"

#include <set>
#include <string>

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

}  // namespace

Report MakeReport(const Canonical& canonical, const ir::Graph& graph, const BuiltPlan& built) {
  const capture::AtenProgram& program = canonical.program;
  Report report;
  report.kernels_before = CountEagerKernels(program);
  report.peak_bytes_before = EagerPeakBytes(program);
  const artifact::Plan& plan = built.plan;
  report.kernels_after = static_cast<int>(plan.steps.size());
  size_t generated = 0;
  auto add = [&](const artifact::Step& step, bool in_run) {
    if (const auto* kernel = std::get_if<artifact::KernelStep>(&step)) {
      KernelReport row = KernelRow(plan.kernels[kernel->kernel], built.kernels[generated++], graph);
      if (in_run) report.kernels.push_back(std::move(row));
    } else if (const auto* call = std::get_if<artifact::LibraryStep>(&step)) {
      if (!in_run) return;
      report.kernels.push_back(CallRow(*call, plan, graph));
      ++report.library_calls[call->op];
    } else {
      const auto& extern_step = std::get<artifact::ExternStep>(step);
      auto& entry = report.extern_calls[extern_step.op];
      ++entry.first;
      auto why = canonical.left_to_torch.find(extern_step.op);
      if (why != canonical.left_to_torch.end()) entry.second = absl::StrJoin(why->second, "; ");
    }
  };
  // Kernels were generated in the partition's order, prologue and run mixed: built.order says which came when.
  size_t prologue = 0, run = 0;
  for (bool in_prologue : built.order) {
    add(in_prologue ? plan.prologue[prologue++] : plan.steps[run++], !in_prologue);
  }
  for (const capture::AtenNode& node : program.nodes) ++report.native_ops[node.op];
  for (const auto& [op, entry] : report.extern_calls) report.native_ops[op] -= entry.first;
  std::erase_if(report.native_ops, [](const auto& entry) { return entry.second <= 0; });
  report.peak_bytes_after = AtLeast(plan.arena_bytes, graph);
  std::set<uint32_t> outputs(plan.output_buffers.begin(), plan.output_buffers.end());
  for (uint32_t buffer : outputs) {
    if (plan.buffers[buffer].storage == artifact::Storage::kOutput)
      report.peak_bytes_after += AtLeast(plan.buffers[buffer].bytes, graph);
  }
  return report;
}

}  // namespace preheat
