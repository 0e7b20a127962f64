#include <memory>

#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Flags {
  std::string key, job;
  uint32_t generation = 0;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("KEY", flags.key, "the key, or its first digits")->type_name("")->required();
  app.add_option("--job", flags.job, "the job (PREHEAT_JOB_ID, TORCHELASTIC_RUN_ID or SLURM_JOB_ID)")->type_name("JOB");
}

// A client that speaks for the job.
absl::StatusOr<Client> ClientOf(Context& context, const Flags& flags) {
  ClientOptions options = context.client().options();
  if (!flags.job.empty()) options.job_id = flags.job;
  if (options.job_id.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "no_job",
                                                          .message = "a pin belongs to a job, and none is named",
                                                          .where = "--job",
                                                          .fix = "give --job, or set PREHEAT_JOB_ID"});
  }
  return Client(std::move(options));
}

absl::StatusOr<Outcome> Pin(Context& context, const Flags& flags) {
  ASSIGN_OR_RETURN(Client client, ClientOf(context, flags));
  ASSIGN_OR_RETURN(v1::Manifest manifest, FindManifest(context, flags.key));
  const uint32_t generation = flags.generation > 0 ? flags.generation : manifest.generation();
  RETURN_IF_ERROR(client.Pin(manifest.key(), generation));
  return Outcome{
      {{"key", manifest.key()}, {"generation", generation}, {"job", client.options().job_id}},
      absl::StrCat(manifest.key(), "\njob ", client.options().job_id, " stays at generation ", generation, "\n")};
}

absl::StatusOr<Outcome> Unpin(Context& context, const Flags& flags) {
  ASSIGN_OR_RETURN(Client client, ClientOf(context, flags));
  ASSIGN_OR_RETURN(std::string key, ResolveKey(context, flags.key));
  RETURN_IF_ERROR(client.Unpin(key));
  return Outcome{{{"key", key}, {"job", client.options().job_id}},
                 absl::StrCat(key, "\njob ", client.options().job_id, " no longer pins it\n")};
}

}  // namespace

Command AddPin(CLI::App& root) {
  CLI::App* app = root.add_subcommand("pin", "keep a job at one generation of a key");
  auto flags = std::make_shared<Flags>();
  AddFlags(*app, *flags);
  app->add_option("--generation", flags->generation, "which one (default: the newest)")->type_name("N");
  return {app, [flags](Context& context) { return Pin(context, *flags); }};
}

Command AddUnpin(CLI::App& root) {
  CLI::App* app = root.add_subcommand("unpin", "let a job's pin go");
  auto flags = std::make_shared<Flags>();
  AddFlags(*app, *flags);
  return {app, [flags](Context& context) { return Unpin(context, *flags); }};
}

}  // namespace preheat::cli
