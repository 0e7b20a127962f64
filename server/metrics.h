#ifndef PREHEAT_SERVER_METRICS_H_
#define PREHEAT_SERVER_METRICS_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/preheat/v1/artifact.pb.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::server {

// What is known only by looking, filled in when somebody asks.
struct Gauges {
  int64_t cache_bytes = 0, cache_entries = 0;
  int64_t inflight = 0, queue_depth = 0;
  std::map<std::pair<std::string, std::string>, int> workers;  // (device, state) -> how many
};

// Everything that /metrics shows, by the names of the interface page, and the sums that `stats` shows. Counts from the
// start of the process. Safe from several threads at once.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  // `result`: "hit", "compiled", "coalesced", "negative", "refused", "failed"; `source`: "server", "local".
  void CountRequest(const std::string& name_space, const std::string& result, const std::string& source,
                    int64_t count = 1);
  void ObserveRequest(const std::string& result, double seconds);
  void ObserveCompile(const std::string& target, const v1::StageSeconds& seconds);
  void ObserveVerify(const std::string& target, double seconds, v1::Evidence::State state);
  // A tuned generation: seconds that it took, and its time over the default's.
  void ObserveTuning(const std::string& target, double seconds, double ratio);
  void CountReport(const v1::FusionReport& report);
  // Once for each job and key; a request without a job counts by itself.
  void CountSaved(const std::string& name_space, const std::string& job, const std::string& key, double seconds);
  void CountBlobBytes(const std::string& direction, size_t bytes);
  void CountCorrupt();
  void CountEvicted(int64_t bytes);
  void ObserveQueue(double seconds);
  void SetCrashes(int64_t total);  // never falls

  // Prometheus' text format.
  std::string Text(const Gauges& gauges);
  // Without what only the store, the pool and the flights know.
  v1::StatsReply Stats() const;

 private:
  struct Families;
  std::string Known(std::set<std::string>& known, size_t most, const std::string& name);
  std::string KnownNamespace(const std::string& name_space);

  const std::unique_ptr<Families> families_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  v1::StatsReply stats_;
  std::set<std::string> namespaces_, operators_;
  std::set<std::pair<std::string, std::string>> saved_;  // (job, key)
  int64_t crashes_ = 0;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_METRICS_H_
