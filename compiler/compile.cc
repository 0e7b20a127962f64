#include "compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/write_plan.h"
#include "compiler/capture/bind_dims.h"
#include "compiler/capture/decompose/lower.h"
#include "compiler/capture/functionalize.h"
#include "compiler/codegen/cpu/host_compiler.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/codegen/cuda/nvrtc_helpers.h"
#include "compiler/codegen/target.h"
#include "compiler/compile_kernels.h"
#include "compiler/draft.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/leave_to_torch.h"
#include "compiler/passes/eliminate_dead_code.h"
#include "compiler/passes/pipeline.h"
#include "compiler/report.h"
#include "compiler/schedule/delay_steps.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"
#include "compiler/schedule/reduce_early.h"
#include "compiler/schedule/split_fullest.h"
#include "compiler/store_library_operands.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

class Stopwatch {
 public:
  double Lap() {
    auto now = std::chrono::steady_clock::now();
    double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void Tell(const CompileOptions& options, absl::string_view stage, double fraction, absl::string_view detail = "") {
  if (options.progress) options.progress(stage, fraction, detail);
}

absl::Status Cancelled(const CompileOptions& options) {
  if (options.cancelled && *options.cancelled)
    return absl::CancelledError("nobody waits for this compilation any more");
  return absl::OkStatus();
}

void FreezeInputs(capture::AtenProgram& program) {
  for (capture::InputSpec& input : program.inputs) input.frozen |= input.kind != ir::InputKind::kUser;
  for (const capture::OutputSpec& output : program.outputs) {  // what the program writes is not frozen
    if (output.kind == capture::OutputSpec::Kind::kMutatesInput) program.inputs[output.mutates].frozen = false;
  }
}

// Names and places of the source's operators, by debug id.
struct DebugNames {
  explicit DebugNames(const capture::AtenProgram& program) {
    for (const auto& location : program.debug.locations) {
      ops.push_back(location.op);
      places.push_back(location.stack);
    }
  }
  std::vector<std::string> ops, places;
};

absl::Status CheckExtern(const Report& report, const CompileOptions& options) {
  if (options.extern_allowed || report.extern_calls.empty()) return absl::OkStatus();
  std::vector<std::string> ops;
  for (const auto& [op, entry] : report.extern_calls) ops.push_back(op);
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "extern_needs_torch",
                    .message = absl::StrCat("these operators have no native form and this client cannot run them: ",
                                            absl::StrJoin(ops, ", ")),
                    .where = "",
                    .fix = "run the program where torch can be imported"});
}

std::string JoinSources(const std::vector<codegen::EmittedKernel>& kernels) {
  std::string text;
  for (const codegen::EmittedKernel& kernel : kernels)
    absl::StrAppend(&text, "// ", kernel.symbol, "\n", kernel.source, "\n");
  return text;
}

absl::StatusOr<ir::Graph> RunPasses(ir::Graph graph, const CompileOptions& options) {
  passes::PipelineOptions pipeline;
  pipeline.disabled = options.disabled_passes;
  pipeline.gpu = DeviceKindOf(options.target) == DeviceKind::kCuda;
  pipeline.cancelled = options.cancelled;
  ASSIGN_OR_RETURN(graph, passes::RunPipeline(std::move(graph), pipeline));
  return pipeline.gpu ? StoreLibraryOperands(graph) : std::move(graph);
}

absl::StatusOr<BuiltPlan> BuildBlockPlan(const std::string& text, const StrideLists& inputs, const StrideLists& outputs,
                                         const DebugNames& names, const CompileOptions& options);

// Merged regions rest on rules that merge_groups.h names; should a region still fail to lower, the program is compiled
// with every root apart rather than not at all.
absl::StatusOr<BuiltPlan> ScheduleAndGenerate(const ir::Graph& graph, const DebugNames& names,
                                              const CompileOptions& options) {
  const DeviceKind device = DeviceKindOf(options.target);
  const BuildBlock build_block = [&](const std::string& text, const StrideLists& inputs, const StrideLists& outputs) {
    return BuildBlockPlan(text, inputs, outputs, names, options);
  };
  schedule::Layouts layouts(graph);
  const bool cpu = device == DeviceKind::kCpu;
  ASSIGN_OR_RETURN(schedule::Partition partition, schedule::Fuse(graph, layouts, /*merge=*/true, cpu));
  if (cpu) {
    schedule::DelaySteps(graph, layouts, partition);
    RETURN_IF_ERROR(schedule::ReduceEarly(graph, layouts, partition));
    schedule::SplitFullest(graph, layouts, partition);
  }
  absl::StatusOr<BuiltPlan> built =
      BuildPlan(graph, layouts, partition, names.ops, names.places, device, options.schedules, build_block);
  if (built.ok() || built.status().code() != absl::StatusCode::kInternal) return built;
  ASSIGN_OR_RETURN(partition, schedule::Fuse(graph, layouts, /*merge=*/false, cpu));
  return BuildPlan(graph, layouts, partition, names.ops, names.places, device, options.schedules, build_block);
}

absl::StatusOr<BuiltPlan> BuildBlockPlan(const std::string& text, const StrideLists& inputs, const StrideLists& outputs,
                                         const DebugNames& names, const CompileOptions& options) {
  ASSIGN_OR_RETURN(ir::Graph block, ReadBlock(text, inputs, outputs));
  ASSIGN_OR_RETURN(ir::Graph graph, RunPasses(std::move(block), options));
  auto kept = std::make_shared<const ir::Graph>(std::move(graph));
  ASSIGN_OR_RETURN(BuiltPlan built, ScheduleAndGenerate(*kept, names, options));
  built.plan.target = options.target;
  built.graph = std::move(kept);
  return built;
}

// A GPU's run is recorded, and its conditions lie where the host does not read.
absl::Status CheckControl(const ir::Graph& graph, const CompileOptions& options) {
  const bool control = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                   [](const ir::Node& node) { return ir::IsControl(node.op()); });
  if (!control || DeviceKindOf(options.target) == DeviceKind::kCpu) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "data_dependent_control_flow",
                    .message = "a branch or loop depends on the contents of a tensor, which a GPU's plan does not read",
                    .where = options.target,
                    .fix = "compute both ways and choose by torch.where, or compile the parts"});
}

absl::Status CheckTarget(const std::string& target) {
  return DeviceKindOf(target) == DeviceKind::kCuda ? ParseCudaTarget(target).status() : ParseCpuTarget(target).status();
}

// Compiles what was emitted: shared objects or cubins, in the order in which the plan's kernels name them.
absl::StatusOr<std::vector<std::string>> CompileCode(Draft& draft, const CompileOptions& options) {
  if (DeviceKindOf(options.target) == DeviceKind::kCuda) {
    ASSIGN_OR_RETURN(CudaTarget target, ParseCudaTarget(options.target));
    return CompileCudaKernels(draft.built.sources, target, options, &draft.artifact.source);
  }
  ASSIGN_OR_RETURN(CpuTarget target, ParseCpuTarget(options.target));
  ASSIGN_OR_RETURN(std::string object, CompileKernels(draft.built.sources, target, options));
  if (object.empty()) return std::vector<std::string>();
  return std::vector<std::string>{std::move(object)};
}

}  // namespace

absl::StatusOr<std::string> HostCompilerVersion() { return codegen::HostCompiler(); }
absl::StatusOr<std::string> DeviceCompilerVersion() { return codegen::NvrtcVersion(); }
void WarmDeviceCompiler() {
  codegen::NvrtcHelpers::OfProcess();
  std::thread([] { codegen::WarmNvrtc().IgnoreError(); }).detach();
}

absl::StatusOr<Canonical> Canonicalize(capture::AtenProgram source, const std::map<std::string, int64_t>& dims,
                                       const CompileOptions& options) {
  Stopwatch watch;
  Tell(options, "import", 0);
  Canonical canonical;
  canonical.program = std::move(source);
  RETURN_IF_ERROR(capture::BindDims(canonical.program, dims));
  RETURN_IF_ERROR(capture::Functionalize(canonical.program));
  if (options.freeze) FreezeInputs(canonical.program);
  decompose::LowerOptions lower;
  lower.exclude.assign(options.exclude.begin(), options.exclude.end());
  lower.wide = DeviceKindOf(options.target) == DeviceKind::kCpu;
  if (DeviceKindOf(options.target) == DeviceKind::kCuda) lower.leave = LeaveToTorchOnGpu(canonical.program);
  lower.left = [&](const capture::AtenNode& node, absl::string_view why) {
    canonical.left_to_torch[node.op].emplace(why);
  };
  ASSIGN_OR_RETURN(canonical.graph, decompose::Lower(canonical.program, lower));
  RETURN_IF_ERROR(ir::Verify(canonical.graph));
  canonical.ir_text = ir::Print(canonical.graph);
  canonical.seconds = watch.Lap();
  Tell(options, "import", 1);
  return canonical;
}

absl::StatusOr<Draft> MakeDraft(const Canonical& canonical, const CompileOptions& options) {
  Stopwatch watch;
  Draft draft;
  Artifact& artifact = draft.artifact;
  RETURN_IF_ERROR(CheckTarget(options.target));
  RETURN_IF_ERROR(CheckControl(canonical.graph, options));

  Tell(options, "passes", 0);
  ASSIGN_OR_RETURN(ir::Graph live, passes::EliminateDeadCode(canonical.graph));  // a graph of our own to rewrite
  ASSIGN_OR_RETURN(ir::Graph graph, RunPasses(std::move(live), options));
  artifact.passes_seconds = watch.Lap();

  Tell(options, "codegen", 0);
  RETURN_IF_ERROR(Cancelled(options));
  DebugNames names(canonical.program);
  ASSIGN_OR_RETURN(draft.built, ScheduleAndGenerate(graph, names, options));
  draft.built.plan.target = options.target;
  artifact.report = MakeReport(canonical, graph, draft.built);
  RETURN_IF_ERROR(CheckExtern(artifact.report, options));
  artifact.source = JoinSources(draft.built.sources);
  draft.graph = std::move(graph);
  artifact.codegen_seconds = watch.Lap();
  return draft;
}

namespace {

// Subplans' kernels are in the same code.
void NameCode(artifact::Plan& plan, const std::vector<std::string>& digests) {
  plan.code = digests;
  for (artifact::Plan& subplan : plan.subplans) NameCode(subplan, digests);
}

}  // namespace

absl::StatusOr<Artifact> FinishDraft(Draft draft, std::vector<std::string> code) {
  std::vector<std::string> digests;
  for (std::string& bytes : code) {
    digests.push_back(Digest(bytes));
    draft.artifact.code[digests.back()] = std::move(bytes);
  }
  NameCode(draft.built.plan, digests);
  ASSIGN_OR_RETURN(draft.artifact.plan, artifact::WritePlan(draft.built.plan));
  return std::move(draft.artifact);
}

// The story: passes, fusion, memory, code, plan.
absl::StatusOr<Artifact> Compile(const Canonical& canonical, const CompileOptions& options) {
  ASSIGN_OR_RETURN(Draft draft, MakeDraft(canonical, options));
  Stopwatch watch;
  Tell(options, "compile", 0, absl::StrCat(draft.built.sources.size(), " kernels"));
  ASSIGN_OR_RETURN(std::vector<std::string> code, CompileCode(draft, options));
  ASSIGN_OR_RETURN(Artifact artifact, FinishDraft(std::move(draft), std::move(code)));
  artifact.compile_seconds = watch.Lap();
  Tell(options, "compile", 1);
  return artifact;
}

}  // namespace preheat
