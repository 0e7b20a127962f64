#ifndef PREHEAT_CLIENT_COMPILECTL_COMMAND_H_
#define PREHEAT_CLIENT_COMPILECTL_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/compilectl/progress.h"
#include "client/cpp/client.h"

namespace preheat::cli {

// Keeps the order in which fields are written.
using Json = nlohmann::ordered_json;

struct Globals {
  ClientOptions client;
  bool json = false;
  bool quiet = false;
  double timeout_seconds = 600;
};

// What the subcommands share while one of them runs.
class Context {
 public:
  explicit Context(const Globals& globals);

  // Made at first use: `server start` needs none.
  Client& client();
  Progress& progress() { return progress_; }
  // Shows the stages of one compile, called `what`, as they are told. Valid as long as this is.
  std::function<void(const v1::Progress&)> Stages(std::string what) {
    return [this, what = std::move(what)](const v1::Progress& progress) { progress_.Stage(what, progress); };
  }
  const Globals& globals() const { return globals_; }

 private:
  const Globals& globals_;
  Progress progress_;
  std::optional<Client> client_;
};

// What a subcommand came to: a document for --json, text for people. A failed action returns a status instead, and
// main prints that as the error document.
struct Outcome {
  Json document;
  std::string text;  // ends with a newline
  int exit_status = 0;
};

using Action = std::function<absl::StatusOr<Outcome>(Context&)>;
struct Command {
  CLI::App* app;
  Action action;
};

// One for each file: declares flags under `root` and says what to do when the subcommand is named.
Command AddCompile(CLI::App& root);
Command AddExplain(CLI::App& root);
Command AddExport(CLI::App& root);
Command AddGc(CLI::App& root);
Command AddImport(CLI::App& root);
Command AddLs(CLI::App& root);
Command AddPin(CLI::App& root);
Command AddRm(CLI::App& root);
Command AddRun(CLI::App& root);
Command AddServerStart(CLI::App& server);
Command AddServerStatus(CLI::App& server);
Command AddServerStop(CLI::App& server);
Command AddShow(CLI::App& root);
Command AddStats(CLI::App& root);
Command AddTop(CLI::App& root);
Command AddUnpin(CLI::App& root);
Command AddVerify(CLI::App& root);
Command AddWarm(CLI::App& root);
Command AddWhyMiss(CLI::App& root);
Command AddWorkers(CLI::App& root);

// Exit status of a failed action: 2 invalid input, 3 unreachable or deadline, 4 refused, 1 anything else.
int ExitStatus(const absl::Status& status);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_COMMAND_H_
