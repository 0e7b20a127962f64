#include <unistd.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/compilectl/command.h"
#include "client/compilectl/server_text.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> Look(Context& context) {
  ASSIGN_OR_RETURN(v1::ListWorkersReply workers, context.client().ListWorkers());
  ASSIGN_OR_RETURN(v1::StatsReply stats, context.client().Stats());
  Json document = WorkersObject(workers);
  document["stats"] = StatsObject(stats);
  return Outcome{document, absl::StrCat(WorkersText(workers), "\n", StatsText(stats))};
}

// On a terminal until it is interrupted or the server is gone; once otherwise.
absl::StatusOr<Outcome> Top(Context& context, double interval_seconds) {
  while (isatty(STDOUT_FILENO) && !context.globals().json) {
    ASSIGN_OR_RETURN(Outcome now, Look(context));
    std::printf("\033[H\033[J%s   %s\n\n%s", "preheatd", context.client().options().server.c_str(), now.text.c_str());
    std::fflush(stdout);
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(absl::Seconds(interval_seconds)));
  }
  return Look(context);
}

}  // namespace

Command AddTop(CLI::App& root) {
  CLI::App* app = root.add_subcommand("top", "workers and counters, live");
  auto interval = std::make_shared<double>(1);
  app->add_option("--interval", *interval, "seconds between looks")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->capture_default_str();
  return {app, [interval](Context& context) { return Top(context, *interval); }};
}

}  // namespace preheat::cli
