#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> Workers(Context& context) {
  ASSIGN_OR_RETURN(v1::ListWorkersReply reply, context.client().ListWorkers());
  Json workers = Json::array();
  Table table({{.header = "id", .shrinks = true},
               {.header = "device"},
               {.header = "target", .shrinks = true},
               {.header = "state"},
               {.header = "tasks", .right = true},
               {.header = "crashes", .right = true}});
  for (const v1::WorkerInfo& worker : reply.workers()) {
    workers.push_back({{"id", worker.id()},
                       {"device", worker.device()},
                       {"target", worker.target()},
                       {"state", worker.state()},
                       {"tasks", worker.tasks()},
                       {"crashes", worker.crashes()}});
    table.Add({worker.id(), worker.device(), worker.target(), worker.state(), absl::StrCat(worker.tasks()),
               absl::StrCat(worker.crashes())});
  }
  return Outcome{{{"workers", workers}}, table.empty() ? "no workers\n" : table.Render()};
}

}  // namespace

Command AddWorkers(CLI::App& root) { return {root.add_subcommand("workers", "the pool of workers"), Workers}; }

}  // namespace preheat::cli
