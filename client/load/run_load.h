#ifndef PREHEAT_CLIENT_LOAD_RUN_LOAD_H_
#define PREHEAT_CLIENT_LOAD_RUN_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/load/tally.h"

namespace preheat::load {

struct LoadOptions {
  ClientOptions client;
  int clients = 64;
  double seconds = 10;
  std::string program;  // a model file; empty: programs of our own
  int keys = 20;        // how many of them
  uint64_t seed = 0;    // what they are made from
  bool fetch_all = true;
  double miss_share = 0;  // of requests that ask for what nobody has compiled
};

struct LoadReport {
  Tally tally;           // hit_ms sorted
  double seconds = 0;    // of the clock
  int64_t programs = 0;  // distinct ones that were asked for again and again
  int64_t warmed = 0;    // of them compiled before the clock started
};

// Told what is going on, a line at a time.
using SayFn = std::function<void(const std::string&)>;

// Compiles the programs if nobody has, waits until the workers rest, then lets all clients ask for `seconds`. Fails
// when the options or the model are wrong, or when a program cannot be compiled; what goes wrong under the clock is
// counted.
absl::StatusOr<LoadReport> RunLoad(const LoadOptions& options, const SayFn& say);

}  // namespace preheat::load

#endif  // PREHEAT_CLIENT_LOAD_RUN_LOAD_H_
