#ifndef PREHEAT_CACHE_PINS_H_
#define PREHEAT_CACHE_PINS_H_

#include <optional>
#include <string>

#include "cache/clock.h"
#include "cache/store.h"

namespace preheat::cache {

// (key, job) -> generation: all ranks and restarts of a job run the same kernels. A pin ends seven days after its
// last use. Safe from several threads at once.
class Pins {
 public:
  static constexpr int64_t kLifetimeMs = int64_t{7} * 24 * 3600 * 1000;

  Pins(Store& store, Clock clock) : store_(store), clock_(std::move(clock)) {}

  // Synced: a restarted server remembers it.
  absl::Status Pin(const std::string& key, const std::string& job, uint32_t generation);
  absl::Status Unpin(const std::string& key, const std::string& job);
  // The pinned generation; counts as a use.
  absl::StatusOr<std::optional<uint32_t>> Find(const std::string& key, const std::string& job);
  // Whether any job holds the key.
  absl::StatusOr<bool> IsPinned(const std::string& key);

 private:
  bool Expired(int64_t last_used_ms) const { return clock_() - last_used_ms > kLifetimeMs; }
  absl::Status Write(const std::string& record_key, uint32_t generation, Durability durability);

  Store& store_;
  const Clock clock_;
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_PINS_H_
