#include "server/collect_garbage.h"

#include "compiler/support/status_macros.h"

namespace preheat::server {

GarbagePolicy GarbagePolicyOf(const Config& config) { return {config.max_cache_bytes, config.gc_age_seconds * 1000}; }

absl::StatusOr<cache::ArtifactIndex::Swept> CollectGarbage(cache::ArtifactIndex& index, Metrics& metrics,
                                                           const GarbagePolicy& policy, bool dry_run) {
  if (policy.max_cache_bytes > 0 && !dry_run) {
    ASSIGN_OR_RETURN(int64_t evicted, index.EvictTo(policy.max_cache_bytes));
    metrics.CountEvicted(evicted);
  }
  return index.Sweep(policy.age_ms, dry_run);
}

}  // namespace preheat::server
