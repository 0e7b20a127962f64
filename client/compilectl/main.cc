// compilectl: the command line of Preheat. Reads the flags, runs the one subcommand that was named and prints what
// it came to; what a subcommand does stands in the file of its name.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/report.h"
#include "compiler/support/error.h"
#include "compiler/support/version.h"

namespace preheat::cli {
namespace {

void AddGlobals(CLI::App& app, Globals& globals) {
  app.add_option("--server", globals.client.server, "HOST:PORT of preheatd (PREHEAT_SERVER; default localhost:7433)")
      ->type_name("HOST:PORT");
  app.add_flag("--json", globals.json, "one JSON document on stdout");
  app.add_flag("-q,--quiet", globals.quiet, "no progress on stderr");
  app.add_option("--timeout", globals.timeout_seconds, "seconds that one call to the server may take")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 86400.0).description(""))
      ->capture_default_str();
  app.add_option("--tls-ca", globals.client.tls_ca, "PEM file of the authority that signed the server")
      ->type_name("FILE");
  app.add_option("--tls-cert", globals.client.tls_cert, "PEM file of the client's certificate")->type_name("FILE");
  app.add_option("--tls-key", globals.client.tls_key, "PEM file of the client's key")->type_name("FILE");
  app.add_option("--token-file", globals.client.token_file, "file with the bearer token (PREHEAT_TOKEN_FILE)")
      ->type_name("FILE");
}

std::vector<Command> AddCommands(CLI::App& app) {
  std::vector<Command> commands = {AddWarm(app),    AddCompile(app), AddRun(app),    AddVerify(app), AddExplain(app),
                                   AddWhyMiss(app), AddLs(app),      AddShow(app),   AddPin(app),    AddUnpin(app),
                                   AddRm(app),      AddGc(app),      AddExport(app), AddImport(app), AddWorkers(app),
                                   AddTop(app),     AddStats(app)};
  CLI::App* server = app.add_subcommand("server", "a local preheatd: start, stop, status");
  server->require_subcommand(1);
  server->fallthrough();
  for (const Command& command : {AddServerStart(*server), AddServerStop(*server), AddServerStatus(*server)})
    commands.push_back(command);
  for (const Command& command : commands) command.app->fallthrough();
  return commands;
}

void Print(const Json& document) {
  std::printf("%s\n", document.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int Fail(const absl::Status& status, bool json) {
  if (json) Print({{"error", ErrorObject(status)}});
  std::fputs(ErrorText(status).c_str(), stderr);
  return ExitStatus(status);
}

int Usage(const CLI::App& app, const CLI::ParseError& error, bool json) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help
  return Fail(
      MakeError(absl::StatusCode::kInvalidArgument, {.kind = "usage",
                                                     .message = error.what(),
                                                     .where = "command line",
                                                     .fix = "see compilectl --help, or compilectl COMMAND --help"}),
      json);
}

int RunCommand(const Command& command, const Globals& globals) {
  Context context(globals);
  absl::StatusOr<Outcome> outcome = command.action(context);
  context.progress().Clear();
  if (!outcome.ok()) return Fail(outcome.status(), globals.json);
  if (globals.json)
    Print(outcome->document);
  else
    std::fputs(outcome->text.c_str(), stdout);
  return outcome->exit_status;
}

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Preheat compiles tensor programs once and keeps the result.", "compilectl");
  Globals globals;
  AddGlobals(app, globals);
  app.set_version_flag("--version", absl::StrCat("compilectl ", Version()));
  app.require_subcommand(1);
  const std::vector<Command> commands = AddCommands(app);
  // Known before the flags are: an error in them is a document too.
  bool json = false;
  for (int i = 1; i < argc; ++i) json |= std::strcmp(argv[i], "--json") == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Usage(app, error, json);
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return RunCommand(command, globals);
  }
  return 2;
}

}  // namespace
}  // namespace preheat::cli

int main(int argc, char** argv) { return preheat::cli::Main(argc, argv); }
