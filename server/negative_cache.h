#ifndef PREHEAT_SERVER_NEGATIVE_CACHE_H_
#define PREHEAT_SERVER_NEGATIVE_CACHE_H_

#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "cache/clock.h"

namespace preheat::server {

// Failures by request, so that a graph that cannot compile costs one try. Kept in memory: a restarted server tries
// again. Safe from several threads at once.
class NegativeCache {
 public:
  static constexpr int64_t kDeterministicMs = int64_t{24} * 3600 * 1000;
  static constexpr int64_t kLostWorkerMs = 30 * 1000;
  static constexpr size_t kMaxEntries = 10000;

  explicit NegativeCache(cache::Clock clock) : clock_(std::move(clock)) {}

  // How long a failure of that kind is believed: a day when the same request must fail again, half a minute when
  // workers were lost over it, 0 when the next try may well succeed (cancelled, overloaded, unavailable).
  static int64_t LifetimeMs(const absl::Status& status);

  // Keeps the failure for its lifetime. `id` is an alias or a key.
  void Put(const std::string& id, const absl::Status& status);
  // The failure kept for it, or OK.
  absl::Status Check(const std::string& id);

 private:
  struct Entry {
    absl::Status status;
    int64_t expires_ms;
  };
  const cache::Clock clock_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_NEGATIVE_CACHE_H_
