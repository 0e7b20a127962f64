#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/compilectl/command.h"
#include "client/compilectl/explain_html.h"
#include "client/compilectl/model.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Flags : ModelFlags {
  std::string html;
};

absl::StatusOr<v1::ExplainReply> Ask(Context& context, const Flags& flags) {
  v1::ExplainRequest request;
  if (IsKey(flags.model)) {
    ASSIGN_OR_RETURN(std::string key, ResolveKey(context, flags.model));
    request.set_key(key);
    return context.client().Explain(request);
  }
  ASSIGN_OR_RETURN(ModelProgram program, LoadOneProgram(flags));
  ASSIGN_OR_RETURN(RequestOptions options, MakeRequestOptions(flags, program, v1::BACKGROUND));
  options.extern_allowed = true;
  // Compiled first, for its progress; explained by the request, for the source lines that only it carries.
  ASSIGN_OR_RETURN(v1::CompileResult result,
                   context.client().Request(program.source, options, context.Stages(program.name)));
  request.set_key(result.key());
  *request.mutable_request() = context.client().MakeRequest(program.source, options);
  return context.client().Explain(request);
}

std::string Interval(double ratio, double low, double high) {
  return absl::StrFormat("%.3f (%.3f to %.3f)", ratio, low, high);
}

// What was measured, and what for: times over the default's, with 95% intervals.
std::string TuningText(const v1::Tuning& tuning) {
  Table sites({{.header = "site", .shrinks = true},
               {.header = "schedule"},
               {.header = "measured", .right = true},
               {.header = "default us", .right = true},
               {.header = "best us", .right = true},
               {.header = "over default"}});
  int chosen = 0;
  for (const v1::TunedSite& site : tuning.sites()) {
    const bool turned = site.schedule() != "default";
    chosen += turned;
    sites.Add({site.name(), absl::StrCat(site.schedule(), site.from_record() ? " (record)" : ""),
               absl::StrCat(site.candidates()), absl::StrFormat("%.1f", site.default_us()),
               absl::StrFormat("%.1f", site.best_us()),
               turned ? Interval(site.ratio(), site.ratio_low(), site.ratio_high()) : "-"});
  }
  std::string text = absl::StrCat("\ntuned: ", chosen, " of ", tuning.sites_size(), " sites turned from the default",
                                  tuning.machine_was_busy() ? ", measured on a busy machine" : "", "\n");
  if (chosen > 0) {
    absl::StrAppend(&text, "the whole program takes ",
                    Interval(tuning.ratio(), tuning.ratio_low(), tuning.ratio_high()), " of its time, by ",
                    tuning.runs(), " paired runs\n");
  }
  return text + (sites.empty() ? "" : sites.Render());
}

std::string Text(const v1::ExplainReply& reply) {
  const v1::FusionReport& report = reply.report();
  Table kernels({{.header = "kernel", .shrinks = true},
                 {.header = "kind"},
                 {.header = "operators", .shrinks = true},
                 {.header = "bytes", .right = true},
                 {.header = "flops", .right = true, .optional = true},
                 {.header = "ms", .right = true, .optional = true},
                 {.header = "roofline", .right = true, .optional = true}});
  for (const v1::KernelReport& kernel : report.kernels()) {
    kernels.Add({kernel.name(), kernel.kind(), absl::StrJoin(kernel.ops(), " "), HumanBytes(kernel.bytes()),
                 HumanNumber(static_cast<double>(kernel.flops())), kernel.ms() > 0 ? HumanNumber(kernel.ms()) : "-",
                 kernel.roofline() > 0 ? absl::StrFormat("%.0f %%", 100 * kernel.roofline()) : "-"});
  }
  std::string text =
      absl::StrCat(reply.key(), "\n", report.kernels_before(), " kernels before, ", report.kernels_after(),
                   " after\npeak memory ", HumanBytes(report.peak_bytes_before()), " before, ",
                   HumanBytes(report.peak_bytes_after()), " after\n\n", kernels.empty() ? "" : kernels.Render() + "\n");
  for (const v1::CallCount& call : report.library_calls())
    absl::StrAppend(&text, "library call  ", call.name(), " x ", call.count(), "\n");
  for (const v1::ExternCall& call : report.extern_calls())
    absl::StrAppend(&text, "extern call   ", call.op(), " x ", call.count(), ": ", call.reason(), "\n");
  for (const v1::GraphBreak& item : report.graph_breaks())
    absl::StrAppend(&text, "graph break   ", item.file(), ":", item.line(), ": ", item.reason(), "\n");
  if (report.extern_calls().empty()) absl::StrAppend(&text, "no extern calls\n");
  if (report.graph_breaks().empty()) absl::StrAppend(&text, "no graph breaks\n");
  const v1::StageSeconds& s = reply.seconds();
  absl::StrAppend(&text, "import ", HumanSeconds(s.import()), ", passes ", HumanSeconds(s.passes()), ", codegen ",
                  HumanSeconds(s.codegen()), ", compile ", HumanSeconds(s.compile()), "\ntune ", HumanSeconds(s.tune()),
                  ", verify ", HumanSeconds(s.verify()), "\n");
  if (report.has_tuning()) absl::StrAppend(&text, TuningText(report.tuning()));
  return text;
}

absl::StatusOr<Outcome> Explain(Context& context, const Flags& flags) {
  ASSIGN_OR_RETURN(v1::ExplainReply reply, Ask(context, flags));
  context.progress().Clear();
  if (!flags.html.empty()) {
    std::ofstream out(flags.html, std::ios::trunc);
    out << ExplainHtml(reply);
    out.close();
    if (!out) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "unwritable_file",
                                                            .message = absl::StrCat("cannot write ", flags.html),
                                                            .where = flags.html,
                                                            .fix = "name a file in a folder that exists"});
    }
  }
  return Outcome{ExplainObject(reply), Text(reply)};
}

}  // namespace

Command AddExplain(CLI::App& root) {
  CLI::App* app = root.add_subcommand("explain", "what became of a program: kernels, calls, memory");
  auto flags = std::make_shared<Flags>();
  AddModelFlags(*app, *flags, "MODEL|KEY");
  app->add_option("--html", flags->html, "also write the report as a page")->type_name("FILE");
  return {app, [flags](Context& context) { return Explain(context, *flags); }};
}

}  // namespace preheat::cli
