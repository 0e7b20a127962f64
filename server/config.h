#ifndef PREHEAT_SERVER_CONFIG_H_
#define PREHEAT_SERVER_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace preheat::server {

// Settings of preheatd. Each is a field of the YAML file and a flag ("data_dir", --data-dir); flags win.
struct Config {
  std::string data_dir = "preheat-data";
  std::string listen;  // empty: every address if callers must say who they are, else this machine alone
  int64_t port = 7433;
  int64_t http_port = 9433;
  int64_t workers = 1;
  int64_t gpu_workers = -1;
  std::string worker_program;  // empty: preheat-worker beside preheatd
  int64_t drain_seconds = 30;
  int64_t task_deadline_seconds = 1800;
  int64_t heartbeat_seconds = 30;
  int64_t max_queue = 1000;
  int64_t max_waiting = 1000;
  int64_t max_request_bytes = int64_t{64} << 20;
  int64_t worker_memory_bytes = 0;
  int64_t max_cache_bytes = 0;
  int64_t gc_age_seconds = 3600;
  int64_t gc_every_seconds = 600;
  bool verify = true;
  bool verify_first = false;
  bool tune_when_busy = false;
  int64_t tune_after_seconds = 10;
  std::string token_file;         // who may call, and what: server/identity.h
  std::string quota_file;         // what a namespace may take: server/quotas.h
  std::string tls_cert, tls_key;  // PEM files; set: clients speak TLS
  std::string tls_client_ca;      // PEM file; set: clients need a certificate that it has signed
  std::string log_level = "info";
  std::string log_format = "auto";
};

// Reads flags and, with --config, the file they name. INVALID_ARGUMENT names the file, line and field; --help,
// --version and --check-config come back as CANCELLED whose message is what to print.
absl::StatusOr<Config> ReadConfig(int argc, const char* const* argv);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_CONFIG_H_
