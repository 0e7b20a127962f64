#ifndef PREHEAT_SERVER_HOUSEKEEPING_H_
#define PREHEAT_SERVER_HOUSEKEEPING_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "cache/store.h"
#include "server/collect_garbage.h"
#include "server/config.h"
#include "server/identity.h"
#include "server/services.h"

namespace preheat::server {

// What has to be done now and then: deadlines each second, uses to disk every few, eviction and sweep every
// gc_every_seconds, on a thread of their own as they may take long. From construction to destruction.
class Housekeeping {
 public:
  // `tokens` may be null. All must outlive it.
  Housekeeping(Services& services, cache::Store& store, const Config& config, Tokens* tokens);
  ~Housekeeping();

 private:
  void Loop(int64_t every_seconds, const std::function<void(int64_t)>& work);
  void Often();    // each second
  void Flush();    // every few seconds
  void CleanUp();  // every gc_every_seconds
  void KeepToolchain();

  Services& services_;
  cache::Store& store_;
  const GarbagePolicy policy_;
  Tokens* const tokens_;
  std::string kept_toolchain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_, collector_;
};

// The toolchain of the workers of the last run, so that aliases lead to hits before the first worker is up.
void RestoreToolchain(cache::Store& store, Pool& pool);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_HOUSEKEEPING_H_
