#ifndef PREHEAT_CLIENT_COMPILECTL_LOCAL_SERVER_H_
#define PREHEAT_CLIENT_COMPILECTL_LOCAL_SERVER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace preheat::cli {

// A preheatd on this machine, known by its data folder: preheatd writes server.json there once it listens, and keeps
// its log in preheatd.log.
struct LocalServer {
  int pid = 0;
  int port = 0, http_port = 0;

  std::string address() const;  // "127.0.0.1:7433"
};

// XDG_DATA_HOME/preheat/server, else ~/.local/share/preheat/server.
std::string DefaultDataDir();

// The server that lives in this data folder; absent when there is none or its process is gone. Not necessarily ready.
std::optional<LocalServer> FindServer(const std::string& data_dir);

// Whether /readyz answers 200.
bool IsReady(const LocalServer& server);

struct StartOptions {
  std::string data_dir;
  std::string program;             // path of preheatd; "": beside this program, else by PATH
  std::vector<std::string> flags;  // for preheatd, --data-dir aside
  absl::Duration patience = absl::Seconds(60);
};
// Starts preheatd in a session of its own and waits until it is ready. One that runs there already is waited for and
// returned. NOT_FOUND "no_preheatd", INTERNAL "server_failed" with the end of its log, DEADLINE_EXCEEDED "not_ready".
absl::StatusOr<LocalServer> StartServer(const StartOptions& options);

// SIGTERM, then waits for the drain. NOT_FOUND "no_server", DEADLINE_EXCEEDED "still_draining".
absl::StatusOr<LocalServer> StopServer(const std::string& data_dir, absl::Duration patience);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_LOCAL_SERVER_H_
