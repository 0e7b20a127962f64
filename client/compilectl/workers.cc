#include "client/compilectl/command.h"
#include "client/compilectl/server_text.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> Workers(Context& context) {
  ASSIGN_OR_RETURN(v1::ListWorkersReply reply, context.client().ListWorkers());
  return Outcome{WorkersObject(reply), WorkersText(reply)};
}

}  // namespace

Command AddWorkers(CLI::App& root) { return {root.add_subcommand("workers", "the pool of workers"), Workers}; }

}  // namespace preheat::cli
