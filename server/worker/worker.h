#ifndef PREHEAT_SERVER_WORKER_WORKER_H_
#define PREHEAT_SERVER_WORKER_WORKER_H_

#include <string>

#include "absl/status/status.h"

namespace preheat::worker {

struct WorkerOptions {
  std::string server;      // "127.0.0.1:7433"
  std::string pool_token;  // what preheatd has handed over
  std::string id = "cpu-0";
  std::string device = "cpu:0";
};

// Registers with the server and does its tasks, one at a time, until the stream ends or the server says drain: OK then.
// UNAVAILABLE when the server cannot be reached, or what it answered to the registration. A task that is running when
// the stream ends is left behind: the caller is expected to end the process.
absl::Status RunWorker(const WorkerOptions& options);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_WORKER_H_
