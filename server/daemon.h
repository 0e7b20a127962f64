#ifndef PREHEAT_SERVER_DAEMON_H_
#define PREHEAT_SERVER_DAEMON_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace preheat::server {

// The whole server, wired together: store, index, pool, workers, RPC and HTTP. The only place that sees every part.
class Daemon {
 public:
  // Opens the store, listens, starts the workers and writes data_dir/server.json: {"pid", "port", "http_port"}.
  // Returns before a worker has registered; /readyz says when one has.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config);
  // Drains, if nobody has.
  virtual ~Daemon() = default;

  virtual int port() const = 0;
  virtual int http_port() const = 0;
  // Takes no new work, lets running compiles finish within drain_seconds, then stops everything. Blocks; call once.
  virtual void Drain() = 0;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_DAEMON_H_
