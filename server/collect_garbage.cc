#include "server/collect_garbage.h"

#include "compiler/support/status_macros.h"

namespace preheat::server {
namespace {

constexpr int64_t kWorthReclaiming = int64_t{64} << 20;  // it rewrites files

}  // namespace

GarbagePolicy GarbagePolicyOf(const Config& config) { return {config.max_cache_bytes, config.gc_age_seconds * 1000}; }

absl::StatusOr<cache::ArtifactIndex::Swept> CollectGarbage(cache::ArtifactIndex& index, Metrics& metrics,
                                                           const GarbagePolicy& policy, bool dry_run) {
  if (policy.max_cache_bytes > 0 && !dry_run) {
    ASSIGN_OR_RETURN(int64_t evicted, index.EvictTo(policy.max_cache_bytes));
    metrics.CountEvicted(evicted);
  }
  ASSIGN_OR_RETURN(cache::ArtifactIndex::Swept swept, index.Sweep(policy.age_ms, dry_run));
  if (!dry_run && swept.bytes >= kWorthReclaiming) RETURN_IF_ERROR(index.Reclaim());
  return swept;
}

}  // namespace preheat::server
