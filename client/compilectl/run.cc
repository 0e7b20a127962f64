#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/compilectl/bound_run.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/model_inputs.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "client/compilectl/torch_library.h"
#include "compiler/capture/program_proto.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

constexpr int kWarmUps = 3;

struct Flags : ModelFlags {
  int repeat = 20;
  bool no_eager = false;
};

// An artifact and what to feed it.
struct Fetched {
  Executable executable;
  capture::AtenProgram program;  // prepared: the artifact's inputs are its inputs
  std::vector<reference::HostTensor> inputs;
  std::string weights;  // where they come from, for people
};

absl::StatusOr<Fetched> FetchTorchScript(Context& context, Flags flags, const ModelProgram& model);

absl::StatusOr<Fetched> FetchModel(Context& context, const Flags& flags) {
  ASSIGN_OR_RETURN(ModelProgram model, LoadOneProgram(flags));
  if (!model.imported()) return FetchTorchScript(context, flags, model);
  ASSIGN_OR_RETURN(RequestOptions options, MakeRequestOptions(flags, model, v1::BACKGROUND));
  options.extern_allowed = TorchLibrary::Get().ok();
  ASSIGN_OR_RETURN(Executable executable, context.client().Compile(model.source, options, context.Stages(model.name)));
  ASSIGN_OR_RETURN(capture::AtenProgram program, Prepare(model, options.dims));
  ASSIGN_OR_RETURN(OwnInputs own, ReadOwnInputs(model, options.dims));
  ASSIGN_OR_RETURN(std::vector<reference::HostTensor> inputs, MakeInputs(program, own));
  const std::string weights = own.tensors.empty() ? "made-up inputs"
                              : own.samples       ? "the model's weights and sample inputs"
                                                  : "the model's weights, made-up inputs";
  return Fetched{std::move(executable), std::move(program), std::move(inputs), weights};
}

absl::StatusOr<Fetched> FetchKey(Context& context, const Flags& flags, v1::Result how = v1::HIT) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, FindManifest(context, flags.model));
  ASSIGN_OR_RETURN(std::string bytes, context.client().ReadBlob(manifest.program()));
  v1::Program proto;
  if (!proto.ParseFromString(bytes)) {
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                   .message = "the stored program cannot be read",
                                                   .where = manifest.key(),
                                                   .fix = "remove the entry and compile again"});
  }
  ASSIGN_OR_RETURN(capture::AtenProgram program, capture::FromProto(proto));
  v1::CompileResult result;
  result.set_key(manifest.key());
  result.set_result(how);
  *result.mutable_manifest() = std::move(manifest);
  ASSIGN_OR_RETURN(Executable executable, context.client().Load(std::move(result)));
  ASSIGN_OR_RETURN(std::vector<reference::HostTensor> inputs, MakeInputs(program, {}));
  return Fetched{std::move(executable), std::move(program), std::move(inputs), "made-up inputs"};
}

// TorchScript: the worker alone has read it, and what it made of it is stored.
absl::StatusOr<Fetched> FetchTorchScript(Context& context, Flags flags, const ModelProgram& model) {
  ASSIGN_OR_RETURN(RequestOptions options, MakeRequestOptions(flags, model, v1::BACKGROUND));
  options.extern_allowed = TorchLibrary::Get().ok();
  ASSIGN_OR_RETURN(v1::CompileResult result,
                   context.client().Request(model.source, options, context.Stages(model.name)));
  flags.model = result.key();
  ASSIGN_OR_RETURN(Fetched fetched, FetchKey(context, flags, result.result()));
  return fetched;
}

struct Times {
  double p50 = 0, p99 = 0;
};

absl::StatusOr<Times> Measure(BoundRun& run, int repeat) {
  for (int i = 0; i < kWarmUps; ++i) RETURN_IF_ERROR(run.Once());
  std::vector<double> ms;
  for (int i = 0; i < repeat; ++i) {
    const int64_t start = absl::GetCurrentTimeNanos();
    RETURN_IF_ERROR(run.Once());
    ms.push_back(static_cast<double>(absl::GetCurrentTimeNanos() - start) * 1e-6);
  }
  std::sort(ms.begin(), ms.end());
  return Times{ms[ms.size() / 2],
               ms[std::min(ms.size() - 1, static_cast<size_t>(std::ceil(0.99 * static_cast<double>(ms.size())) - 1))]};
}

// NaN where torch is not there or cannot run the program; `why` says so then.
double EagerMs(const Fetched& fetched, int repeat, std::string& why) {
  const absl::StatusOr<const TorchLibrary*> torch = TorchLibrary::Get();
  absl::Status status = torch.status();
  if (status.ok()) {
    HostTensors tensors(fetched.inputs);
    const absl::StatusOr<TorchLibrary::Timing> timing = (*torch)->Time(fetched.program, tensors.tensors(), repeat);
    if (timing.ok()) return timing->p50_ms;
    status = timing.status();
  }
  why = GetError(status).message;
  return std::nan("");
}

// Work of one run by the report; NaN where the program has ranges, whose report is of the least sizes.
struct Work {
  double bytes = std::nan(""), flops = std::nan("");
};
Work WorkOf(Context& context, const Executable& executable) {
  if (preheat_num_symbols(executable.get()) > 0) return {};
  v1::ExplainRequest request;
  request.set_key(executable.key());
  const absl::StatusOr<v1::ExplainReply> reply = context.client().Explain(request);
  if (!reply.ok()) return {};
  Work work{0, 0};
  for (const v1::KernelReport& kernel : reply->report().kernels()) {
    work.bytes += static_cast<double>(kernel.bytes());
    work.flops += static_cast<double>(kernel.flops());
  }
  return work;
}

absl::StatusOr<Outcome> Run(Context& context, const Flags& flags) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(Fetched fetched, IsKey(flags.model) ? FetchKey(context, flags) : FetchModel(context, flags));
  context.progress().Clear();
  preheat_extern_handler handler = nullptr;
  if (fetched.executable.result().extern_ops_size() > 0 || IsKey(flags.model)) {
    if (const auto torch = TorchLibrary::Get(); torch.ok()) handler = (*torch)->extern_handler();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<BoundRun> run, BoundRun::Make(fetched.executable, fetched.inputs, handler));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);  // until the first run may begin
  ASSIGN_OR_RETURN(Times times, Measure(*run, flags.repeat));
  std::string why;
  const double eager_ms = flags.no_eager ? std::nan("") : EagerMs(fetched, flags.repeat, why);
  const Work work = WorkOf(context, fetched.executable);
  const double gb_per_s = work.bytes / (times.p50 * 1e6), tflop_per_s = work.flops / (times.p50 * 1e9);
  const v1::CompileResult& result = fetched.executable.result();
  Outcome outcome;
  outcome.document = {{"key", result.key()},
                      {"result", ResultName(result.result())},
                      {"seconds", Number(seconds)},
                      {"ms", {{"p50", Number(times.p50)}, {"p99", Number(times.p99)}}},
                      {"eager_ms", Number(eager_ms)},
                      {"gb_per_s", Number(gb_per_s)},
                      {"tflop_per_s", Number(tflop_per_s)}};
  outcome.text = absl::StrCat(result.key(), "\n", ResultName(result.result()), ", ready in ", HumanNumber(seconds),
                              " s\n", fetched.weights, "; ", flags.repeat, " runs\npreheat  ", HumanNumber(times.p50),
                              " ms (p99 ", HumanNumber(times.p99), " ms), ", HumanNumber(gb_per_s), " GB/s, ",
                              HumanNumber(tflop_per_s), " TFLOP/s\n");
  if (std::isfinite(eager_ms))
    absl::StrAppend(&outcome.text, "eager    ", HumanNumber(eager_ms), " ms: ", HumanNumber(eager_ms / times.p50),
                    " times as long\n");
  else if (!why.empty())
    absl::StrAppend(&outcome.text, "eager    not measured: ", why, "\n");
  return outcome;
}

}  // namespace

Command AddRun(CLI::App& root) {
  CLI::App* app = root.add_subcommand("run", "fetch a program and time it, eager beside it");
  auto flags = std::make_shared<Flags>();
  AddModelFlags(*app, *flags, "MODEL|KEY");
  app->add_option("--repeat", flags->repeat, "timed runs")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000).description(""))
      ->capture_default_str();
  app->add_flag("--no-eager", flags->no_eager, "do not time eager");
  return {app, [flags](Context& context) { return Run(context, *flags); }};
}

}  // namespace preheat::cli
