#include <memory>

#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/plan_text.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Flags {
  std::string key;
  bool source = false, plan = false, ir = false;
};

std::string Text(const v1::Manifest& manifest) {
  const v1::Toolchain& toolchain = manifest.toolchain();
  std::string text =
      absl::StrCat("key         ", manifest.key(), "\ngeneration  ", manifest.generation(),
                   manifest.tuned() ? " (tuned)" : "", "\ntarget      ", manifest.target(), "\nverified    ",
                   StateName(manifest.evidence().state()), "\ntoolchain   epoch ", toolchain.compiler_epoch(), ", ",
                   toolchain.host_compiler(), toolchain.device_compiler().empty() ? "" : ", ",
                   toolchain.device_compiler(), ", plan version ", toolchain.plan_version(), "\n");
  Table blobs({{.header = "blob"}, {.header = "bytes", .right = true}, {.header = "digest", .shrinks = true}});
  auto add = [&](const char* what, const v1::BlobRef& blob) {
    if (!blob.digest().empty()) blobs.Add({what, HumanBytes(blob.size_bytes()), blob.digest()});
  };
  add("plan", manifest.plan());
  for (const v1::BlobRef& code : manifest.code()) add("code", code);
  add("ir", manifest.ir());
  add("program", manifest.program());
  add("source", manifest.source());
  add("report", manifest.report());
  return text + blobs.Render();
}

absl::StatusOr<Outcome> ShowBlob(Context& context, const v1::Manifest& manifest, const char* what,
                                 const v1::BlobRef& blob) {
  if (blob.digest().empty()) {
    return MakeError(absl::StatusCode::kNotFound,
                     {.kind = "not_kept",
                      .message = absl::StrCat("no ", what, " is kept with ", manifest.key()),
                      .where = manifest.key(),
                      .fix = ""});
  }
  ASSIGN_OR_RETURN(std::string text, context.client().ReadBlob(blob));
  if (absl::string_view(what) == "plan") {
    ASSIGN_OR_RETURN(text, PlanText(text));
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  return Outcome{{{"key", manifest.key()}, {what, text}}, text};
}

absl::StatusOr<Outcome> Show(Context& context, const Flags& flags) {
  if (flags.source + flags.plan + flags.ir > 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "usage",
                                                          .message = "--source, --plan and --ir exclude each other",
                                                          .where = "command line",
                                                          .fix = "give one of them"});
  }
  ASSIGN_OR_RETURN(v1::Manifest manifest, FindManifest(context, flags.key));
  if (flags.source) return ShowBlob(context, manifest, "source", manifest.source());
  if (flags.plan) return ShowBlob(context, manifest, "plan", manifest.plan());
  if (flags.ir) return ShowBlob(context, manifest, "ir", manifest.ir());
  return Outcome{ManifestObject(manifest), Text(manifest)};
}

}  // namespace

Command AddShow(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "one entry of the cache: its manifest, source, plan or IR");
  auto flags = std::make_shared<Flags>();
  app->add_option("KEY", flags->key, "the key, or its first digits")->type_name("")->required();
  app->add_flag("--source", flags->source, "the generated source");
  app->add_flag("--plan", flags->plan, "what the runtime executes, as JSON");
  app->add_flag("--ir", flags->ir, "the canonical program");
  return {app, [flags](Context& context) { return Show(context, *flags); }};
}

}  // namespace preheat::cli
