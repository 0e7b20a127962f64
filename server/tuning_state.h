#ifndef PREHEAT_SERVER_TUNING_STATE_H_
#define PREHEAT_SERVER_TUNING_STATE_H_

#include <mutex>
#include <set>
#include <string>

#include "cache/tuning_index.h"

namespace preheat::server {

// What the server knows of tuning beside the flights. Safe from several threads at once.
class TuningState {
 public:
  // Both must outlive it. `when_busy`: measure although other processes use the device.
  TuningState(cache::Store& store, cache::UseLog& uses, bool when_busy)
      : records_(store, uses), when_busy_(when_busy) {}

  cache::TuningIndex& records() { return records_; }
  bool when_busy() const { return when_busy_; }

  // A worker has said that this key cannot be tuned: nobody asks again until the server starts anew.
  void GiveUp(const std::string& key) {
    std::lock_guard lock(mutex_);
    if (given_up_.size() >= kMost) given_up_.clear();
    given_up_.insert(key);
  }
  bool HasGivenUp(const std::string& key) {
    std::lock_guard lock(mutex_);
    return given_up_.count(key) > 0;
  }

 private:
  static constexpr size_t kMost = 100000;
  cache::TuningIndex records_;
  const bool when_busy_;
  std::mutex mutex_;
  std::set<std::string> given_up_;  // guarded by mutex_
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_TUNING_STATE_H_
