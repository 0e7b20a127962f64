#ifndef PREHEAT_CACHE_METRICS_STORE_H_
#define PREHEAT_CACHE_METRICS_STORE_H_

#include <functional>
#include <memory>

#include "cache/store.h"

namespace preheat::cache {

// Tells how many blob bytes go in and out. `count` is called on the acting thread, after success.
enum class Direction { kRead, kWritten };
std::unique_ptr<Store> NewMetricsStore(std::unique_ptr<Store> inner,
                                       std::function<void(Direction direction, size_t bytes)> count);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_METRICS_STORE_H_
