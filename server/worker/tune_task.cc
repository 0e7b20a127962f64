#include "server/worker/tune_task.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autotune/tune.h"
#include "compiler/compile.h"
#include "compiler/reference/inputs/inputs.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/preheat_runtime.h"
#include "server/worker/artifact_blobs.h"
#include "server/worker/report_proto.h"
#include "server/worker/run_artifact.h"
#include "server/worker/worker_gpu.h"

namespace preheat::worker {
namespace {

// A GPU's own events time steps without what the host does beside, and nobody else uses it: half of a CPU's time.
constexpr std::chrono::seconds kBudgetOnGpu{5};

v1::TaskDone NotTuned(std::string reason) {
  v1::TaskDone done;
  done.set_not_tuned(std::move(reason));
  return done;
}

// "AMD EPYC 7R13, 2 threads", "NVIDIA H200, ...": what tuned generations are for.
std::string MachineName() {
  if (const Gpu* gpu = WorkersGpu()) return gpu->Model();
  std::ifstream file("/proc/cpuinfo");
  std::string line, model = "unknown CPU";
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (!absl::StartsWith(line, "model name") || colon == std::string::npos) continue;
    model = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    break;
  }
  return absl::StrCat(model, ", ", std::thread::hardware_concurrency(), " threads");
}

CompileOptions OptionsOf(const v1::TuneTask& task, const TaskContext& context) {
  CompileOptions options;
  options.target = task.manifest().target();
  options.exclude = {task.exclude().begin(), task.exclude().end()};
  options.freeze = task.freeze();
  options.progress = context.progress;
  options.kernels = {context.lookup_kernels, context.publish_kernels};
  options.cancelled = context.cancelled;
  return options;
}

v1::Tuning TuningReport(const autotune::Tuning& tuning) {
  v1::Tuning proto;
  proto.set_ratio(tuning.ratio.value);
  proto.set_ratio_low(tuning.ratio.low);
  proto.set_ratio_high(tuning.ratio.high);
  proto.set_runs(tuning.runs);
  proto.set_machine_was_busy(tuning.machine_was_busy);
  for (const autotune::SiteResult& result : tuning.sites) {
    v1::TunedSite& site = *proto.add_sites();
    site.set_name(result.name);
    site.set_schedule(result.schedule);
    site.set_candidates(result.candidates);
    site.set_default_us(result.default_us);
    site.set_best_us(result.best_us);
    site.set_ratio(result.ratio.value);
    site.set_ratio_low(result.ratio.low);
    site.set_ratio_high(result.ratio.high);
    site.set_from_record(result.from_record);
  }
  return proto;
}

// The program as the key has it, and what to run it on. FAILED_PRECONDITION "changed_program" when this compiler reads
// it otherwise.
absl::StatusOr<Canonical> ReadCanonical(const v1::TuneTask& task, const CompileOptions& options) {
  ASSIGN_OR_RETURN(capture::AtenProgram program, ReadProgram(task.blobs(), task.manifest().program()));
  ASSIGN_OR_RETURN(Canonical canonical, Canonicalize(std::move(program), {}, options));
  if (Digest(canonical.ir_text) == task.manifest().ir().digest()) return canonical;
  return MakeError(absl::StatusCode::kFailedPrecondition, {.kind = "changed_program",
                                                           .message = "the stored program gives another graph now",
                                                           .where = task.manifest().key(),
                                                           .fix = "`compilectl rm` lets it be compiled anew"});
}

absl::StatusOr<autotune::TuneOptions> TuneOptionsOf(const v1::TuneTask& task, const Canonical& canonical,
                                                    const CompileOptions& options, const TaskContext& context) {
  autotune::TuneOptions tune;
  tune.compile = options;
  reference::InputOptions inputs;
  ASSIGN_OR_RETURN(inputs.symbols, reference::CompleteSymbols(canonical.program, {}));
  inputs.max_bytes = context.InputBytes();
  ASSIGN_OR_RETURN(tune.inputs, reference::GenerateInputs(canonical.program, inputs));
  tune.symbols = inputs.symbols;
  ASSIGN_OR_RETURN(tune.gpu, DeviceFor(options.target));
  if (const Gpu* gpu = WorkersGpu()) tune.device = absl::StrCat("cuda-", gpu->uuid);
  tune.extern_handler = ExternHandler(tune.gpu);
  tune.machine = MachineName();
  tune.toolchain = tune.gpu != nullptr ? context.toolchain.device_compiler() : context.toolchain.host_compiler();
  tune.lookup_records = context.lookup_tuning;
  tune.log = [](const std::string& line) { spdlog::info("{}", line); };
  if (tune.gpu != nullptr) tune.budget = kBudgetOnGpu;
  // The rest is for what libraries pack and need for a while, and for compilers.
  if (tune.gpu == nullptr) tune.memory_bytes = context.memory_bytes / 4 * 3;
  if (!task.when_busy() && tune.gpu == nullptr) tune.patience = std::chrono::milliseconds(task.patience_ms());
  return tune;
}

// Empty: artifacts for this target can be measured here.
std::string WhyNotHere(const std::string& target) {
  if (absl::StartsWith(target, "cuda:")) return std::string(CheckDevice(target).message());
  return target == preheat_host_target() ? "" : absl::StrCat("this worker runs on ", preheat_host_target());
}

void AddGeneration(const v1::TuneTask& task, autotune::TuneResult result, double seconds, v1::TaskDone& done) {
  v1::Manifest& manifest = *done.mutable_manifest();
  manifest = task.manifest();
  v1::FusionReport report = ToProto(result.artifact.report);
  *report.mutable_tuning() = TuningReport(result.tuning);
  AddArtifact(std::move(result.artifact), report, done);
  manifest.set_tuned(true);
  manifest.set_tuned_for(MachineName());
  manifest.clear_generation();
  manifest.clear_evidence();
  manifest.clear_created_unix_ms();
  manifest.mutable_seconds()->set_tune(seconds);
  manifest.mutable_seconds()->clear_verify();
  for (auto& [key, record] : result.records) (*done.mutable_tuning_records())[key] = std::move(record);
}

}  // namespace

absl::StatusOr<v1::TaskDone> RunTuneTask(const v1::TuneTask& task, const TaskContext& context) {
  const auto start = std::chrono::steady_clock::now();
  context.progress("tune", 0, "");
  if (std::string why = WhyNotHere(task.manifest().target()); !why.empty()) return NotTuned(std::move(why));
  if (!task.when_busy()) {
    const absl::Status quiet = WaitForGpu(std::chrono::milliseconds(task.patience_ms()), context.cancelled);
    if (GetError(quiet).kind == "no_nvml") return NotTuned(std::string(quiet.message()));
    RETURN_IF_ERROR(quiet);
  }
  const CompileOptions options = OptionsOf(task, context);
  ASSIGN_OR_RETURN(Canonical canonical, ReadCanonical(task, options));
  absl::StatusOr<autotune::TuneOptions> tune = TuneOptionsOf(task, canonical, options, context);
  if (!tune.ok()) return NotTuned(std::string(tune.status().message()));
  GpuWatch watch(context.cancelled);
  if (tune->gpu != nullptr && !task.when_busy()) tune->watch = [&](autotune::Moment at) { return watch.Look(at); };
  absl::StatusOr<autotune::TuneResult> result = autotune::Tune(canonical, *tune);
  if (absl::IsCancelled(result.status()) || GetError(result.status()).kind == "gpu_busy") return result.status();
  if (!result.ok()) return NotTuned(std::string(result.status().message()));
  v1::TaskDone done;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  AddGeneration(task, *std::move(result), took.count(), done);
  return done;
}

}  // namespace preheat::worker
