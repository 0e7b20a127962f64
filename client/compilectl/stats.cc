#include "client/compilectl/command.h"
#include "client/compilectl/server_text.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> Stats(Context& context) {
  ASSIGN_OR_RETURN(v1::StatsReply reply, context.client().Stats());
  return Outcome{StatsObject(reply), StatsText(reply)};
}

}  // namespace

Command AddStats(CLI::App& root) { return {root.add_subcommand("stats", "the server's counters"), Stats}; }

}  // namespace preheat::cli
