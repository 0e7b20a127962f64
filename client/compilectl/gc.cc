#include <memory>

#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> Gc(Context& context, bool dry_run) {
  ASSIGN_OR_RETURN(v1::CollectGarbageReply reply, context.client().CollectGarbage(dry_run));
  return Outcome{
      {{"blobs", reply.blobs()}, {"bytes", reply.bytes()}, {"dry_run", dry_run}},
      absl::StrCat(dry_run ? "would remove " : "removed ", reply.blobs(), " blobs, ", HumanBytes(reply.bytes()), "\n")};
}

}  // namespace

Command AddGc(CLI::App& root) {
  CLI::App* app = root.add_subcommand("gc", "remove blobs that no entry names");
  auto dry_run = std::make_shared<bool>(false);
  app->add_flag("--dry-run", *dry_run, "only say what would go");
  return {app, [dry_run](Context& context) { return Gc(context, *dry_run); }};
}

}  // namespace preheat::cli
