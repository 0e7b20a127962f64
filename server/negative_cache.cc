#include "server/negative_cache.h"

#include "compiler/support/error.h"

namespace preheat::server {

int64_t NegativeCache::LifetimeMs(const absl::Status& status) {
  if (GetError(status).kind == "task_killed_workers") return kLostWorkerMs;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal: return kDeterministicMs;
    case absl::StatusCode::kDeadlineExceeded: return kLostWorkerMs;
    default: return 0;
  }
}

void NegativeCache::Put(const std::string& id, const absl::Status& status) {
  int64_t lifetime = LifetimeMs(status);
  if (lifetime == 0) return;
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kMaxEntries) {
    for (auto it = entries_.begin(); it != entries_.end();) {
      it = it->second.expires_ms <= clock_() ? entries_.erase(it) : std::next(it);
    }
    if (entries_.size() >= kMaxEntries) entries_.erase(entries_.begin());
  }
  entries_[id] = {status, clock_() + lifetime};
}

absl::Status NegativeCache::Check(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return absl::OkStatus();
  if (found->second.expires_ms > clock_()) return found->second.status;
  entries_.erase(found);
  return absl::OkStatus();
}

}  // namespace preheat::server
