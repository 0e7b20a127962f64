#ifndef PREHEAT_SERVER_HOUSEKEEPING_H_
#define PREHEAT_SERVER_HOUSEKEEPING_H_

#include <condition_variable>
#include <mutex>
#include <thread>

#include "cache/store.h"
#include "server/identity.h"
#include "server/services.h"

namespace preheat::server {

// What has to be done now and then: deadlines each second, uses to disk every few, sweep and eviction every ten
// minutes. One thread, from construction to destruction.
class Housekeeping {
 public:
  // `max_cache_bytes` 0: no eviction. `tokens` may be null. All must outlive it.
  Housekeeping(Services& services, cache::Store& store, int64_t max_cache_bytes, Tokens* tokens);
  ~Housekeeping();

 private:
  void Loop();
  void Often();    // each second
  void Flush();    // every few seconds
  void CleanUp();  // every ten minutes
  void KeepToolchain();

  Services& services_;
  cache::Store& store_;
  const int64_t max_cache_bytes_;
  Tokens* const tokens_;
  std::string kept_toolchain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

// The toolchain of the workers of the last run, so that aliases lead to hits before the first worker is up.
void RestoreToolchain(cache::Store& store, Pool& pool);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_HOUSEKEEPING_H_
