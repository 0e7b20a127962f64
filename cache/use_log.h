#ifndef PREHEAT_CACHE_USE_LOG_H_
#define PREHEAT_CACHE_USE_LOG_H_

#include <map>
#include <mutex>
#include <string>

#include "cache/clock.h"
#include "cache/store.h"
#include "proto/preheat/v1/store.pb.h"

namespace preheat::cache {

// When each key was last used and how often it was hit. A hit costs no write: uses gather in memory until Flush, so a
// crash forgets the last few. Safe from several threads at once.
class UseLog {
 public:
  UseLog(Store& store, Clock clock) : store_(store), clock_(std::move(clock)) {}

  void Record(const std::string& key, int64_t hits);
  absl::StatusOr<v1::UseRecord> Get(const std::string& key);
  absl::Status Flush();

 private:
  absl::StatusOr<v1::UseRecord> Merged(const std::string& key, const v1::UseRecord& pending);

  Store& store_;
  const Clock clock_;
  std::mutex mutex_;
  std::map<std::string, v1::UseRecord> pending_;  // guarded by mutex_; hits since the last flush
  std::mutex flush_mutex_;                        // taken before mutex_: flushes one after another
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_USE_LOG_H_
