#ifndef PREHEAT_SERVER_HISTORY_H_
#define PREHEAT_SERVER_HISTORY_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "proto/preheat/v1/compile.pb.h"

namespace preheat::server {

// What the status page tells of the past: requests of each minute of the last day, and the last compiles. In memory:
// Prometheus is what keeps. Safe from several threads at once.
class History {
 public:
  struct Minute {
    int64_t unix_minute = 0;
    int64_t hit = 0, coalesced = 0, compiled = 0;
    int64_t bad = 0;  // negative, refused, failed
    int64_t total() const { return hit + coalesced + compiled + bad; }
  };
  struct Compile {
    int64_t unix_ms = 0;  // its end
    std::string name, name_space, target;
    std::string key;      // empty if it failed before that was known
    double seconds = 0;   // from the first request to its end, the queue included
    std::string failure;  // the error's kind; empty: it went well
  };

  // What was asked since the process began, as `stats` counts it; call about once a second.
  void Sample(int64_t unix_ms, const v1::StatsReply& stats);
  void Add(Compile compile);

  // Oldest first; minutes without requests are not among them.
  std::vector<Minute> Minutes() const;
  // Newest first.
  std::vector<Compile> Compiles() const;

 private:
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  Minute before_;  // the totals of the last sample
  std::deque<Minute> minutes_;
  std::deque<Compile> compiles_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_HISTORY_H_
