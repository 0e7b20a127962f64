#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/compilectl/command.h"
#include "client/compilectl/local_server.h"
#include "client/compilectl/report.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Flags {
  std::string data_dir = DefaultDataDir();
  std::string preheatd, config;
  int port = 7433, http_port = 9433, workers = 1;
  double patience_seconds = 60;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--data-dir", flags.data_dir, "where the server keeps its state")
      ->type_name("FOLDER")
      ->capture_default_str();
}

Json Document(const LocalServer& server, const std::string& state, const std::string& data_dir) {
  return {{"state", state},
          {"pid", server.pid},
          {"server", server.address()},
          {"port", server.port},
          {"http_port", server.http_port},
          {"data_dir", data_dir}};
}

// Documents of a failing status hold an error beside the state.
absl::Status NoServer(const std::string& data_dir) {
  return MakeError(absl::StatusCode::kNotFound, {.kind = "no_server",
                                                 .message = absl::StrCat("no server runs in ", data_dir),
                                                 .where = data_dir,
                                                 .fix = "start one with `compilectl server start`"});
}
absl::Status NotReady(const LocalServer& server, const std::string& data_dir) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.kind = "not_ready",
                    .message = absl::StrCat("preheatd (pid ", server.pid, ") runs, but no worker is up"),
                    .where = data_dir,
                    .fix = "see preheatd.log and worker-0.log there"});
}

absl::StatusOr<Outcome> Start(const Flags& flags) {
  StartOptions options;
  options.data_dir = flags.data_dir;
  options.program = flags.preheatd;
  options.patience = absl::Seconds(flags.patience_seconds);
  options.flags = {"--port",    absl::StrCat(flags.port),   "--http-port", absl::StrCat(flags.http_port),
                   "--workers", absl::StrCat(flags.workers)};
  if (!flags.config.empty()) options.flags.insert(options.flags.end(), {"--config", flags.config});
  const bool before = FindServer(flags.data_dir).has_value();
  ASSIGN_OR_RETURN(LocalServer server, StartServer(options));
  return Outcome{Document(server, "running", flags.data_dir),
                 absl::StrCat("preheatd ", before ? "runs already" : "is ready", " at ", server.address(), " (pid ",
                              server.pid, ")\n  status page  http://127.0.0.1:", server.http_port, "/\n  data         ",
                              flags.data_dir, "\n")};
}

absl::StatusOr<Outcome> Stop(const Flags& flags) {
  ASSIGN_OR_RETURN(LocalServer server, StopServer(flags.data_dir, absl::Seconds(flags.patience_seconds)));
  return Outcome{Document(server, "stopped", flags.data_dir),
                 absl::StrCat("preheatd (pid ", server.pid, ") has stopped\n")};
}

absl::StatusOr<Outcome> Status(const Flags& flags) {
  const std::optional<LocalServer> server = FindServer(flags.data_dir);
  if (!server) {
    const absl::Status error = NoServer(flags.data_dir);
    return Outcome{{{"state", "stopped"}, {"data_dir", flags.data_dir}, {"error", ErrorObject(error)}},
                   absl::StrCat(error.message(), "\n"),
                   1};
  }
  const bool ready = IsReady(*server);
  Outcome outcome{
      Document(*server, ready ? "running" : "not_ready", flags.data_dir),
      absl::StrCat(ready ? "running" : "not ready", " at ", server->address(), " (pid ", server->pid, ")\n"),
      ready ? 0 : 1};
  if (!ready) outcome.document["error"] = ErrorObject(NotReady(*server, flags.data_dir));
  return outcome;
}

}  // namespace

Command AddServerStart(CLI::App& server) {
  CLI::App* app = server.add_subcommand("start", "start preheatd here and wait until it is ready");
  auto flags = std::make_shared<Flags>();
  AddFlags(*app, *flags);
  app->add_option("--port", flags->port, "gRPC; 0 takes a free one")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  app->add_option("--http-port", flags->http_port, "metrics and status page; 0 takes a free one")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  app->add_option("--workers", flags->workers, "worker processes")
      ->type_name("N")
      ->check(CLI::Range(0, 1024).description(""))
      ->capture_default_str();
  app->add_option("--config", flags->config, "a preheatd.yaml")->type_name("FILE");
  app->add_option("--preheatd", flags->preheatd, "the program, if it is not beside this one")->type_name("FILE");
  app->add_option("--patience", flags->patience_seconds, "seconds to wait for it")
      ->type_name("SECONDS")
      ->capture_default_str();
  return {app, [flags](Context&) { return Start(*flags); }};
}

Command AddServerStop(CLI::App& server) {
  CLI::App* app = server.add_subcommand("stop", "let the server finish its work and end");
  auto flags = std::make_shared<Flags>();
  AddFlags(*app, *flags);
  app->add_option("--patience", flags->patience_seconds, "seconds to wait for its end")
      ->type_name("SECONDS")
      ->capture_default_str();
  return {app, [flags](Context&) { return Stop(*flags); }};
}

Command AddServerStatus(CLI::App& server) {
  CLI::App* app = server.add_subcommand("status", "whether a server runs in a data folder");
  auto flags = std::make_shared<Flags>();
  AddFlags(*app, *flags);
  return {app, [flags](Context&) { return Status(*flags); }};
}

}  // namespace preheat::cli
