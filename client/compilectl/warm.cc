#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/compilectl/buckets.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/capture/bind_dims.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

// Requests under way at once: enough to keep a node's workers busy.
constexpr size_t kParallel = 4;

struct Flags {
  std::string shapes, mode;
  bool check = false;
};

// One request and what became of it.
struct Bucket {
  const ModelProgram* program;
  RequestOptions options;
  v1::CompileResult result;
  absl::Status error;
  double seconds = 0;

  std::string ResultText() const { return error.ok() ? ResultName(result.result()) : "failed"; }
};

// The names of a bucket's dimensions that this program has. A bundle's programs need not all have all of them.
absl::StatusOr<RequestOptions> OptionsFor(const ModelProgram& program, const BucketModel& model, const BucketDims& dims,
                                          std::map<std::string, bool>& used) {
  RequestOptions options;
  options.name = program.name;
  options.target = model.target.empty() ? "cpu" : model.target;
  options.mode = model.mode;
  options.freeze = model.freeze;
  options.extern_allowed = true;
  for (const auto& [name, value] : dims) {
    if (!program.imported()) {
      used[name] = true;
      options.dims[name] = value.value;
      continue;
    }
    capture::AtenProgram bound = program.program;
    const absl::Status status = capture::BindDims(bound, {{name, value.value}});
    const bool lacks = !status.ok() && GetError(status).kind == "unknown_dimension";
    if (!status.ok() && !lacks) return AtPlace(status, value.value_at);
    if (lacks) continue;
    used[name] = true;
    options.dims[name] = value.value;
  }
  if (!program.imported()) return options;
  // Together they may break a guard that none breaks alone.
  capture::AtenProgram bound = program.program;
  const absl::Status together = capture::BindDims(bound, options.dims);
  if (!together.ok()) return AtPlace(together, dims.empty() ? model.source_at : dims.begin()->second.value_at);
  return options;
}

absl::Status UnknownDimension(const std::vector<ModelProgram>& programs, const std::string& name,
                              const std::string& at) {
  std::vector<std::string> right;
  for (const ModelProgram& program : programs) {
    for (const std::string& known : capture::DimensionNames(program.program)) right.push_back(known);
  }
  std::sort(right.begin(), right.end());
  right.erase(std::unique(right.begin(), right.end()), right.end());
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "unknown_dimension",
       .message = absl::StrCat("the program has no dimension \"", name, "\"", DidYouMean(name, right)),
       .where = at,
       .fix = right.empty() ? "it has no symbolic dimensions: leave the bucket out, or export it with dynamic shapes"
                            : absl::StrCat("its dimensions are ", absl::StrJoin(right, ", "))});
}

absl::Status AddBuckets(const std::vector<ModelProgram>& programs, const BucketModel& model,
                        std::vector<Bucket>& buckets) {
  for (const BucketDims& dims : model.buckets) {
    std::map<std::string, bool> used;
    for (const ModelProgram& program : programs) {
      ASSIGN_OR_RETURN(RequestOptions options, OptionsFor(program, model, dims, used));
      buckets.push_back({.program = &program, .options = std::move(options), .result = {}, .error = {}});
    }
    for (const auto& [name, value] : dims) {
      if (!used.contains(name)) return UnknownDimension(programs, name, value.name_at);
    }
  }
  return absl::OkStatus();
}

// Every model of the file, opened and imported; the first mistake anywhere ends it.
absl::StatusOr<std::vector<std::vector<ModelProgram>>> LoadAll(std::vector<BucketModel>& models, const Flags& flags) {
  std::vector<std::vector<ModelProgram>> loaded;
  for (BucketModel& model : models) {
    ASSIGN_OR_RETURN(model.mode, ParseMode(flags.mode, model.mode));
    absl::StatusOr<std::vector<ModelProgram>> programs = LoadModel(model.source, model.inputs);
    if (!programs.ok()) return AtPlace(programs.status(), model.source_at);
    for (ModelProgram& program : *programs)
      program.name = programs->size() == 1 ? model.name : absl::StrCat(model.name, "/", program.name);
    loaded.push_back(*std::move(programs));
  }
  return loaded;
}

// "seq=128 batch=2"; "" where nothing is bound.
std::string DimsText(const Bucket& bucket) { return absl::StrJoin(bucket.options.dims, " ", absl::PairFormatter("=")); }

std::string Label(const Bucket& bucket) {
  const std::string dims = DimsText(bucket);
  return absl::StrCat(bucket.program->name, dims.empty() ? "" : " ", dims);
}

void RunAll(Context& context, std::vector<Bucket>& buckets) {
  Client& client = context.client();
  std::atomic<size_t> next{0};
  std::atomic<int> done{0};
  const int total = static_cast<int>(buckets.size());
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < buckets.size();) {
      Bucket& bucket = buckets[i];
      const absl::Time start = absl::Now();
      absl::StatusOr<v1::CompileResult> result = client.Request(
          bucket.program->source, bucket.options,
          [&](const v1::Progress& progress) { context.progress().Working(done, total, Label(bucket), progress); });
      bucket.seconds = absl::ToDoubleSeconds(absl::Now() - start);
      bucket.error = result.status();
      if (result.ok()) bucket.result = *std::move(result);
      context.progress().Items(done.fetch_add(1) + 1, total, absl::StrCat(Label(bucket), ": ", bucket.ResultText()));
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(kParallel, buckets.size()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

Json BucketObject(const Bucket& bucket) {
  Json dims = Json::object();
  for (const auto& [name, value] : bucket.options.dims) dims[name] = value;
  const std::string &key = bucket.result.key(), &target = bucket.result.manifest().target();
  return {{"model", bucket.program->name},
          {"dims", std::move(dims)},
          {"target", target.empty() ? bucket.options.target : target},
          {"key", key.empty() ? Json(nullptr) : Json(key)},
          {"result", bucket.ResultText()},
          {"seconds", Number(bucket.seconds)},
          {"error", bucket.error.ok() ? Json(nullptr) : ErrorObject(bucket.error)}};
}

std::string BucketTable(const std::vector<Bucket>& buckets) {
  Table table({{.header = "model", .shrinks = true},
               {.header = "dimensions", .shrinks = true},
               {.header = "result"},
               {.header = "seconds", .right = true},
               {.header = "key"}});
  for (const Bucket& bucket : buckets) {
    const std::string dims = DimsText(bucket), &key = bucket.result.key();
    table.Add({bucket.program->name, dims.empty() ? "-" : dims, bucket.ResultText(), HumanSeconds(bucket.seconds),
               key.empty() ? "-" : key.substr(0, 12)});
  }
  return table.Render();
}

Outcome Summarize(const std::vector<Bucket>& buckets, double seconds, bool check) {
  std::map<std::string, int> counts;
  Json list = Json::array();
  std::string errors, line;
  for (const Bucket& bucket : buckets) {
    ++counts[bucket.ResultText()];
    list.push_back(BucketObject(bucket));
    if (!bucket.error.ok()) absl::StrAppend(&errors, Label(bucket), ": ", ErrorText(bucket.error));
  }
  Outcome outcome;
  outcome.document = {{"buckets", std::move(list)}};
  for (const char* name : {"hit", "compiled", "coalesced", "missing", "failed"}) {
    outcome.document[name] = counts[name];
    if (counts[name] > 0) absl::StrAppend(&line, line.empty() ? "" : ", ", counts[name], " ", name);
  }
  outcome.document["seconds"] = Number(seconds);
  outcome.text = absl::StrCat(BucketTable(buckets), errors, line, " in ", HumanSeconds(seconds), "\n");
  outcome.exit_status = counts["failed"] > 0 || (check && counts["missing"] > 0) ? 1 : 0;
  return outcome;
}

absl::StatusOr<Outcome> Warm(Context& context, const Flags& flags) {
  ASSIGN_OR_RETURN(std::vector<BucketModel> models, ReadBuckets(flags.shapes));
  ASSIGN_OR_RETURN(std::vector<std::vector<ModelProgram>> programs, LoadAll(models, flags));
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < models.size(); ++i) RETURN_IF_ERROR(AddBuckets(programs[i], models[i], buckets));
  for (Bucket& bucket : buckets) bucket.options.lookup_only = flags.check;
  // A server that is not there is one error, not one for each bucket.
  RETURN_IF_ERROR(context.client().Stats().status());
  const absl::Time start = absl::Now();
  RunAll(context, buckets);
  context.progress().Clear();
  return Summarize(buckets, absl::ToDoubleSeconds(absl::Now() - start), flags.check);
}

}  // namespace

Command AddWarm(CLI::App& root) {
  CLI::App* app = root.add_subcommand("warm", "compile every bucket of a buckets.yaml");
  auto flags = std::make_shared<Flags>();
  app->add_option("--shapes", flags->shapes, "the buckets.yaml")->type_name("FILE")->required();
  app->add_option("--mode", flags->mode, "fast, tuned or background, instead of what the file says")->type_name("MODE");
  app->add_flag("--check", flags->check, "compile nothing; fail if a bucket is missing");
  return {app, [flags](Context& context) { return Warm(context, *flags); }};
}

}  // namespace preheat::cli
