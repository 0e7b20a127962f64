#ifndef PREHEAT_CLIENT_CPP_BACKOFF_H_
#define PREHEAT_CLIENT_CPP_BACKOFF_H_

#include <random>

#include "absl/time/time.h"

namespace preheat {

// How long to wait before the next attempt: doubling from 50 ms to 2 s, each time a random half to all of it, so
// that a thousand jobs whose server restarts do not come back in one instant. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(uint64_t seed) : random_(seed) {}

  absl::Duration Next();

 private:
  absl::Duration ceiling_ = absl::Milliseconds(50);
  std::mt19937_64 random_;
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_BACKOFF_H_
