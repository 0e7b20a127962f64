#ifndef PREHEAT_SERVER_COLLECT_GARBAGE_H_
#define PREHEAT_SERVER_COLLECT_GARBAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cache/artifact_index.h"
#include "server/config.h"
#include "server/metrics.h"

namespace preheat::server {

struct GarbagePolicy {
  int64_t max_cache_bytes = 0;  // 0: no eviction
  int64_t age_ms = 3600 * 1000;
};
GarbagePolicy GarbagePolicyOf(const Config& config);

// Evicts down to the budget, then sweeps the blobs that nothing names any more. `dry_run` only counts what the sweep
// would take now. Hits and compiles go on meanwhile.
absl::StatusOr<cache::ArtifactIndex::Swept> CollectGarbage(cache::ArtifactIndex& index, Metrics& metrics,
                                                           const GarbagePolicy& policy, bool dry_run);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COLLECT_GARBAGE_H_
