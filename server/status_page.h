#ifndef PREHEAT_SERVER_STATUS_PAGE_H_
#define PREHEAT_SERVER_STATUS_PAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/preheat/v1/cache.pb.h"
#include "proto/preheat/v1/compile.pb.h"
#include "proto/preheat/v1/pool.pb.h"
#include "server/history.h"
#include "server/metrics.h"

namespace preheat::server {

// The pages for a person with a browser. Plain HTML, nothing loaded from elsewhere; whatever clients sent is escaped.

struct Status {
  int64_t unix_ms = 0;  // now
  std::string data_dir;
  v1::StatsReply stats;
  Gauges gauges;
  std::vector<v1::WorkerInfo> workers;
  std::vector<History::Minute> minutes;
  std::vector<History::Compile> compiles;
  std::vector<std::string> notices;  // what an operator must know: shown on top
};
// At /: hit rate over time, queue, workers, recent compiles.
std::string StatusPage(const Status& status);

// At /artifacts: what the cache holds, the last used first.
std::string ArtifactsPage(std::vector<v1::Entry> entries, int64_t unix_ms);

// At /artifact/KEY: what is known of one key, and its fusion report.
struct ArtifactView {
  v1::Entry entry;
  v1::Manifest manifest;
  absl::StatusOr<v1::FusionReport> report;
};
std::string ArtifactPage(const ArtifactView& view, int64_t unix_ms);

// Instead of any of them, when there is nothing to show.
std::string ErrorPage(const absl::Status& status);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_STATUS_PAGE_H_
