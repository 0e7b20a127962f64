#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/report.h"
#include "compiler/support/human.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Compiled {
  std::string kind;
  v1::CompileResult result;
  double seconds;
};

// Worse results stand later: a bundle's result is its worst.
int Rank(v1::Result result) {
  switch (result) {
    case v1::HIT: return 0;
    case v1::COALESCED: return 1;
    case v1::COMPILED: return 2;
    default: return 3;
  }
}

std::string Text(Context& context, const Compiled& compiled) {
  const v1::CompileResult& result = compiled.result;
  const v1::Manifest& manifest = result.manifest();
  std::string text =
      absl::StrCat(result.key(), "\n", "  ", ResultName(result.result()), " in ", HumanSeconds(compiled.seconds),
                   ", generation ", manifest.generation(), manifest.tuned() ? " (tuned)" : "", ", ", manifest.target(),
                   ", ", HumanBytes(TotalBytes(manifest)), "\n");
  v1::ExplainRequest request;
  request.set_key(result.key());
  // The report's first lines are an extra; the compile has succeeded.
  if (absl::StatusOr<v1::ExplainReply> reply = context.client().Explain(request); reply.ok()) {
    int externs = 0;
    for (const v1::ExternCall& call : reply->report().extern_calls()) externs += call.count();
    absl::StrAppend(&text, "  ", reply->report().kernels_before(), " kernels before, ", reply->report().kernels_after(),
                    " after; ", externs, " extern calls\n  peak memory ",
                    HumanBytes(reply->report().peak_bytes_before()), " before, ",
                    HumanBytes(reply->report().peak_bytes_after()), " after\n");
  }
  return text;
}

// All of a model, or the one that is named.
absl::StatusOr<std::vector<ModelProgram>> Select(const ModelFlags& flags) {
  if (flags.program.empty()) return LoadModel(flags.model, flags.inputs);
  std::vector<ModelProgram> programs(1);
  ASSIGN_OR_RETURN(programs[0], LoadOneProgram(flags));
  return programs;
}

// A bundle's document lists its programs; that of a single program has its fields as well.
Json Document(const std::vector<Compiled>& all, bool bundle) {
  Json document = all.size() == 1 ? CompileObject(all[0].result, all[0].seconds) : Json::object();
  if (!bundle) return document;
  Json list = Json::array();
  v1::Result worst = v1::HIT;
  for (const Compiled& compiled : all) {
    list.push_back(CompileObject(compiled.result, compiled.seconds));
    list.back()["kind"] = compiled.kind;
    if (Rank(compiled.result.result()) > Rank(worst)) worst = compiled.result.result();
  }
  document["programs"] = list;
  document["result"] = ResultName(worst);
  return document;
}

absl::StatusOr<Outcome> Compile(Context& context, const ModelFlags& flags) {
  ASSIGN_OR_RETURN(std::vector<ModelProgram> programs, Select(flags));
  std::vector<Compiled> all;
  for (const ModelProgram& program : programs) {
    ASSIGN_OR_RETURN(RequestOptions options, MakeRequestOptions(flags, program, v1::BACKGROUND));
    options.extern_allowed = true;
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(v1::CompileResult result,
                     context.client().Request(program.source, options, context.Stages(program.name)));
    all.push_back({program.kind, std::move(result), absl::ToDoubleSeconds(absl::Now() - start)});
  }
  context.progress().Clear();
  Outcome outcome;
  for (const Compiled& compiled : all) outcome.text += context.globals().json ? "" : Text(context, compiled);
  outcome.document = Document(all, absl::EndsWith(flags.model, ".preheat"));
  return outcome;
}

}  // namespace

Command AddCompile(CLI::App& root) {
  CLI::App* app = root.add_subcommand("compile", "compile one program, or find it compiled");
  auto flags = std::make_shared<ModelFlags>();
  AddModelFlags(*app, *flags, "MODEL");
  return {app, [flags](Context& context) { return Compile(context, *flags); }};
}

}  // namespace preheat::cli
