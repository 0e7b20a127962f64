#ifndef PREHEAT_CACHE_CLOCK_H_
#define PREHEAT_CACHE_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace preheat::cache {

// Milliseconds since 1970. A value, so that tests can make days pass.
using Clock = std::function<int64_t()>;

inline int64_t SystemNowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_CLOCK_H_
