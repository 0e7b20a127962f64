#include "server/worker/verify_task.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autotune/quiet_machine.h"
#include "cache/clock.h"
#include "compiler/capture/bind_dims.h"
#include "compiler/reference/inputs/inputs.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/preheat_runtime.h"
#include "server/worker/artifact_blobs.h"
#include "server/worker/compare_outputs.h"
#include "server/worker/run_artifact.h"
#include "server/worker/worker_gpu.h"
#if PREHEAT_WITH_TORCH
#include "compiler/reference/reference.h"
#endif

namespace preheat::worker {
namespace {

using capture::AtenProgram;
using reference::HostTensor;
using Symbols = std::map<std::string, int64_t>;

constexpr std::chrono::milliseconds kPatience{2000};

bool IsGpu(const std::string& target) { return absl::StartsWith(target, "cuda:"); }

absl::Status Invalid(std::string kind, std::string message, std::string where, std::string fix) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::move(kind), .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

v1::TaskDone NotPossible(std::string reason) {
  v1::TaskDone done;
  done.mutable_evidence()->set_state(v1::Evidence::NOT_POSSIBLE);
  done.mutable_evidence()->set_reason(std::move(reason));
  return done;
}

// Attention with dropout.
bool DropsOut(const capture::AtenNode& node) {
  const capture::Argument* dropout = node.Find("dropout_p");
  const auto* share = dropout != nullptr ? std::get_if<double>(dropout) : nullptr;
  return share != nullptr && *share != 0;
}

// Why the outputs of this program say nothing when they differ; empty: they do.
std::string WhyIncomparable(const AtenProgram& program) {
  static constexpr std::array<absl::string_view, 9> kRandom = {
      "aten.rand",           "aten.bernoulli", "aten.normal",  "aten.multinomial", "aten.exponential",
      "aten.native_dropout", "aten.dropout",   "aten.uniform", "aten.empty"};
  for (const capture::AtenNode& node : program.nodes) {
    for (absl::string_view prefix : kRandom) {
      if (absl::StartsWith(node.op, prefix)) return absl::StrCat(node.op, " gives other numbers each time");
    }
    if (DropsOut(node)) return absl::StrCat(node.op, " drops out other numbers each time");
    for (absl::string_view name : {"aten._flash_attention_", "aten._efficient_attention_"}) {
      if (absl::StartsWith(node.op, name)) {
        return absl::StrCat(node.op, " is for GPUs alone, and the reference runs on a CPU");
      }
    }
  }
  return "";
}

// Values by the names of symbols. A canonical program has only those, "d0", and "input.axis".
absl::StatusOr<Symbols> NamedSymbols(const AtenProgram& program, const v1::VerifyRequest& request) {
  std::vector<std::string> names = capture::DimensionNames(program);
  Symbols symbols;
  for (const auto& [name, value] : request.dims()) {
    size_t i = 0;
    while (i < program.symbols.size() && name != program.symbols[i].name && (i >= names.size() || name != names[i]))
      ++i;
    if (i == program.symbols.size()) {
      return Invalid("unknown_dimension", absl::StrCat("the program has no dimension ", name), name,
                     absl::StrCat("its dimensions are ", absl::StrJoin(names, ", ")));
    }
    symbols[program.symbols[i].name] = value;
  }
  return symbols;
}

// What the request gives for single inputs: dense, of the sizes that the symbols say.
absl::StatusOr<std::map<int, HostTensor>> GivenInputs(const AtenProgram& program, const v1::VerifyRequest& request,
                                                      const Symbols& symbols) {
  std::map<int, HostTensor> given;
  for (const auto& [index, bytes] : request.inputs()) {
    if (index >= program.inputs.size())
      return Invalid("unknown_input", absl::StrCat("there is no input ", index), "inputs", "");
    const ir::TensorType& type = program.values[program.inputs[index].value].type.tensor;
    std::vector<int64_t> sizes;
    for (const ir::Expr& size : type.shape) {
      sizes.push_back(size.Evaluate([&](const std::string& name) {
        auto found = symbols.find(name);
        return found == symbols.end() ? 0 : found->second;
      }));
    }
    if (static_cast<int64_t>(bytes.size()) != reference::NumElements(sizes) * ir::DTypeSize(type.dtype)) {
      return Invalid("shape_mismatch",
                     absl::StrCat("input ", index, " has ", bytes.size(), " bytes, which is not its size"), "inputs",
                     "give dense, row-major bytes of the declared shape");
    }
    HostTensor tensor = reference::MakeTensor(type.dtype, std::move(sizes));
    tensor.bytes = bytes;
    given[static_cast<int>(index)] = std::move(tensor);
  }
  return given;
}

absl::StatusOr<std::vector<HostTensor>> RunOurs(const v1::VerifyTask& task, const std::vector<HostTensor>& inputs) {
  ASSIGN_OR_RETURN(std::string plan, BlobOf(task.blobs(), task.manifest().plan()));
  std::map<std::string, std::string> code;
  for (const v1::BlobRef& ref : task.manifest().code()) {
    ASSIGN_OR_RETURN(code[ref.digest()], BlobOf(task.blobs(), ref));
  }
  return RunArtifact(task.manifest().target(), plan, code, inputs);
}

// What a GPU's program makes on its device is made here.
AtenProgram OnHost(AtenProgram program) {
  for (capture::AtenNode& node : program.nodes) {
    for (AtenProgram& block : node.blocks) block = OnHost(std::move(block));
    for (capture::NamedArgument& argument : node.args) {
      auto* named = std::get_if<capture::Enum>(&argument.value);
      if (named != nullptr && named->kind == capture::Enum::Kind::kDevice) named->name = "cpu";
    }
  }
  return program;
}

#if PREHEAT_WITH_TORCH
// The artifact has no outputs where eager returns None.
std::vector<HostTensor> WithoutNone(const AtenProgram& program, std::vector<HostTensor> outputs) {
  std::vector<HostTensor> kept;
  for (size_t i = 0; i < outputs.size() && i < program.outputs.size(); ++i) {
    if (program.outputs[i].value >= 0) kept.push_back(std::move(outputs[i]));
  }
  return kept;
}

absl::StatusOr<std::vector<HostTensor>> RunEager(const AtenProgram& program, const std::vector<HostTensor>& inputs,
                                                 const Symbols& symbols, bool float64,
                                                 const std::atomic<bool>* cancelled) {
  reference::ReferenceOptions options;
  options.float64 = float64;
  options.cancelled = cancelled;
  options.symbols = symbols;
  ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, reference::RunReference(program, inputs, options));
  return WithoutNone(program, std::move(outputs));
}
#else
absl::StatusOr<std::vector<HostTensor>> RunEager(const AtenProgram&, const std::vector<HostTensor>&, const Symbols&,
                                                 bool, const std::atomic<bool>*) {
  return absl::UnimplementedError("this worker was built without torch, so it has no reference");
}
#endif

absl::StatusOr<std::vector<HostTensor>> MakeInputs(const AtenProgram& program, const v1::VerifyRequest& request,
                                                   int64_t max_bytes, Symbols& symbols) {
  ASSIGN_OR_RETURN(symbols, NamedSymbols(program, request));
  ASSIGN_OR_RETURN(symbols, reference::CompleteSymbols(program, symbols));
  reference::InputOptions options;
  options.seed = request.seed();
  options.symbols = symbols;
  options.max_bytes = max_bytes;
  ASSIGN_OR_RETURN(options.given, GivenInputs(program, request, symbols));
  return reference::GenerateInputs(program, options);
}

// What says that this machine or torch cannot do it, and nothing about the artifact.
bool IsNoVerdict(const absl::Status& status) {
  static constexpr std::array<absl::string_view, 12> kKinds = {
      "unsupported_cpu",   "extern_needs_torch", "inputs_too_large", "no_sizes_found",
      "incompatible_plan", "out_of_memory",      "no_such_device",   "no_nvml",
      "no_cublaslt",       "no_cudnn",           "cublaslt_error",   "cudnn_error"};
  std::string kind = GetError(status).kind;
  return absl::IsUnimplemented(status) || std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

absl::StatusOr<v1::TaskDone> Verify(const v1::VerifyTask& task, const AtenProgram& program,
                                    const TaskContext& context) {
  const std::atomic<bool>* cancelled = context.cancelled;
  Symbols symbols;
  ASSIGN_OR_RETURN(std::vector<HostTensor> inputs, MakeInputs(program, task.request(), context.InputBytes(), symbols));
  ASSIGN_OR_RETURN(std::vector<HostTensor> exact, RunEager(program, inputs, symbols, /*float64=*/true, cancelled));
  ASSIGN_OR_RETURN(std::vector<HostTensor> eager, RunEager(program, inputs, symbols, /*float64=*/false, cancelled));
  v1::TaskDone done;
  if (IsGpu(task.manifest().target())) RETURN_IF_ERROR(WaitForGpu(kPatience, cancelled));  // a job may have begun
  absl::StatusOr<std::vector<HostTensor>> ours = RunOurs(task, inputs);
  if (ours.ok()) {
    *done.mutable_evidence() = CompareOutputs(*ours, eager, exact);
    return done;
  }
  if (IsNoVerdict(ours.status()) || absl::IsDataLoss(ours.status())) return ours.status();
  // Eager runs this program and the artifact does not: that is a verdict.
  done.mutable_evidence()->set_state(v1::Evidence::FAILED);
  done.mutable_evidence()->set_reason(absl::StrCat("it does not run: ", ours.status().message()));
  return done;
}

absl::Status WaitForOthers(const std::string& target, int64_t until_unix_ms, const std::atomic<bool>* cancelled) {
  const std::chrono::milliseconds patience(until_unix_ms - cache::SystemNowMs());
  if (patience.count() > 0) autotune::WaitForQuiet(patience, cancelled);
  if (IsGpu(target)) RETURN_IF_ERROR(WaitForGpu(std::max(patience, std::chrono::milliseconds(0)), cancelled));
  return cancelled != nullptr && *cancelled ? absl::CancelledError("cancelled") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::TaskDone> RunVerifyTask(const v1::VerifyTask& task, const TaskContext& context) {
  context.progress("verify", 0, "");
  if (absl::Status place = CheckDevice(task.manifest().target()); !place.ok())
    return NotPossible(std::string(place.message()));
  ASSIGN_OR_RETURN(AtenProgram stored, ReadProgram(task.blobs(), task.manifest().program()));
  const AtenProgram program = OnHost(std::move(stored));
  if (std::string why = WhyIncomparable(program); !why.empty()) return NotPossible(std::move(why));
  if (absl::Status quiet = WaitForOthers(task.manifest().target(), task.quiet_until_unix_ms(), context.cancelled);
      !quiet.ok()) {
    return IsNoVerdict(quiet) ? NotPossible(std::string(quiet.message())) : absl::StatusOr<v1::TaskDone>(quiet);
  }
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<v1::TaskDone> done = Verify(task, program, context);
  if (!done.ok() && IsNoVerdict(done.status())) return NotPossible(std::string(done.status().message()));
  if (done.ok())
    done->mutable_evidence()->set_seconds(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return done;
}

}  // namespace preheat::worker
