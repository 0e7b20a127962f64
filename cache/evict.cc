// Forgetting: removal of keys, eviction of the least recently used, and the sweep of blobs that nothing names.

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/artifact_index.h"
#include "cache/records.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

// A kernel that no program asked for in this long is compiled again when one does, and so with what was measured.
constexpr int64_t kKernelLifetimeMs = int64_t{30} * 24 * 3600 * 1000;
constexpr int64_t kTuningLifetimeMs = kKernelLifetimeMs;

template <typename Message>
bool Parse(absl::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

absl::Status DeletePrefix(Store& store, Table table, const std::string& prefix, std::vector<Change>& changes) {
  return store.Scan(table, prefix, [&](absl::string_view key, absl::string_view) {
    changes.push_back({table, std::string(key), std::nullopt});
    return true;
  });
}

absl::Status MarkGenerations(Store& store, std::set<std::string>& marked) {
  return store.Scan(Table::kGeneration, "", [&](absl::string_view, absl::string_view value) {
    v1::GenerationRecord record;
    if (!Parse(value, record)) return true;
    marked.insert(record.manifest_digest());
    for (const v1::BlobRef& blob : NamedBlobs(record.manifest())) marked.insert(blob.digest());
    return true;
  });
}

// Marks what young kernels name; old kernels become changes.
absl::Status MarkKernels(Store& store, int64_t now_ms, std::set<std::string>& marked, std::vector<Change>& changes) {
  return store.Scan(Table::kKernel, "", [&](absl::string_view key, absl::string_view value) {
    v1::KernelRecord record;
    if (Parse(value, record) && now_ms - record.touched_unix_ms() <= kKernelLifetimeMs) {
      marked.insert(record.digest());
    } else {
      changes.push_back({Table::kKernel, std::string(key), std::nullopt});
    }
    return true;
  });
}

// An alias of a forgotten key would only lead to a miss.
absl::Status DropDeadAliases(Store& store, std::vector<Change>& changes) {
  std::set<std::string> keys;
  RETURN_IF_ERROR(store.Scan(Table::kKey, "", [&](absl::string_view key, absl::string_view) {
    keys.emplace(key);
    return true;
  }));
  return store.Scan(Table::kAlias, "", [&](absl::string_view alias, absl::string_view value) {
    v1::AliasRecord record;
    if (!Parse(value, record) || keys.count(record.key()) == 0) {
      changes.push_back({Table::kAlias, std::string(alias), std::nullopt});
    }
    return true;
  });
}

// Deletes what no tuner has asked for in a long time.
absl::Status DropOldTuning(Store& store, UseLog& uses, int64_t now_ms, std::vector<Change>& changes) {
  std::vector<std::string> keys;
  RETURN_IF_ERROR(store.Scan(Table::kTuning, "", [&](absl::string_view key, absl::string_view) {
    keys.emplace_back(key);
    return true;
  }));
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(v1::UseRecord use, uses.Get(key));
    if (use.last_used_unix_ms() == 0) {
      uses.Record(key, 0);  // its month begins: of a version that noted no uses, or forgotten in a crash
    } else if (now_ms - use.last_used_unix_ms() > kTuningLifetimeMs) {
      changes.push_back({Table::kTuning, key, std::nullopt});
      changes.push_back({Table::kUse, key, std::nullopt});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> ArtifactIndex::Remove(const std::string& key) {
  std::lock_guard lock(writing_);
  ASSIGN_OR_RETURN(bool pinned, pins_.IsPinned(key));
  if (pinned) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.kind = "pinned",
                      .message = absl::StrCat("a job has pinned ", key),
                      .where = key,
                      .fix = "unpin it, or wait: a pin ends seven days after its last use"});
  }
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, Generations(key));
  if (records.empty()) return false;
  // A client that was just told of them may still be fetching.
  std::vector<std::string> named;
  for (const v1::GenerationRecord& record : records) {
    for (const v1::BlobRef& blob : NamedBlobs(record.manifest())) named.push_back(blob.digest());
  }
  RETURN_IF_ERROR(blobs_.Touch(named, Durability::kLazy));
  std::vector<Change> changes = {{Table::kKey, key, std::nullopt}, {Table::kUse, key, std::nullopt}};
  for (Table table : {Table::kGeneration, Table::kEvidence, Table::kPin}) {
    RETURN_IF_ERROR(DeletePrefix(store_, table, absl::StrCat(key, "/"), changes));
  }
  if (ledger_ != nullptr) RETURN_IF_ERROR(ledger_->Remove(key));
  RETURN_IF_ERROR(store_.Write(std::move(changes), Durability::kSynced));
  return true;
}

// Writers need not wait for it: what one holds at the beginning counts as named, whenever its record comes, and what is
// put or touched later is younger than the beginning.
absl::StatusOr<ArtifactIndex::Swept> ArtifactIndex::Sweep(int64_t min_age_ms, bool dry_run) {
  std::lock_guard lock(sweeping_);
  const int64_t since_ms = clock_() - min_age_ms;
  std::set<std::string> marked = blobs_.Held();
  std::vector<Change> changes;
  RETURN_IF_ERROR(MarkGenerations(store_, marked));
  RETURN_IF_ERROR(MarkKernels(store_, clock_(), marked, changes));
  RETURN_IF_ERROR(DropDeadAliases(store_, changes));
  RETURN_IF_ERROR(DropOldTuning(store_, uses_, clock_(), changes));
  RETURN_IF_ERROR(DeletePrefix(store_, Table::kQuarantine, "", changes));
  std::vector<std::string> candidates;
  RETURN_IF_ERROR(store_.Scan(Table::kBlobInfo, "", [&](absl::string_view digest, absl::string_view value) {
    v1::BlobRecord record;
    bool young = Parse(value, record) && record.touched_unix_ms() >= since_ms;
    if (!young && marked.count(std::string(digest)) == 0) candidates.emplace_back(digest);
    return true;
  }));
  if (!dry_run && !changes.empty()) RETURN_IF_ERROR(store_.Write(std::move(changes), Durability::kLazy));
  return blobs_.RemoveUntouched(candidates, since_ms, dry_run);
}

absl::StatusOr<int64_t> ArtifactIndex::EvictTo(int64_t max_bytes) {
  ASSIGN_OR_RETURN(Footprint footprint, Measure());
  int64_t evicted = 0;
  for (const Footprint::Item& item : footprint.LeastRecentlyUsedFirst()) {
    if (footprint.bytes() <= max_bytes) break;
    if (item.table == Table::kKernel) {
      RETURN_IF_ERROR(store_.Write({{Table::kKernel, item.key, std::nullopt}}, Durability::kLazy));
    } else {
      absl::StatusOr<bool> removed = Remove(item.key);
      if (absl::IsFailedPrecondition(removed.status())) continue;  // pinned
      RETURN_IF_ERROR(removed.status());
    }
    evicted += footprint.Drop(item);
  }
  return evicted;
}

absl::StatusOr<Footprint> ArtifactIndex::Measure() {
  Footprint footprint;
  RETURN_IF_ERROR(store_.Scan(Table::kBlobInfo, "", [&](absl::string_view digest, absl::string_view value) {
    v1::BlobRecord record;
    if (Parse(value, record)) footprint.AddSize(std::string(digest), record.size_bytes());
    return true;
  }));
  RETURN_IF_ERROR(store_.Scan(Table::kGeneration, "", [&](absl::string_view at, absl::string_view value) {
    v1::GenerationRecord record;
    if (!Parse(value, record)) return true;
    std::vector<std::string> digests = {record.manifest_digest()};
    for (const v1::BlobRef& blob : NamedBlobs(record.manifest())) digests.push_back(blob.digest());
    footprint.Add(Table::kGeneration, std::string(KeyOf(at)), record.manifest().created_unix_ms(), digests);
    return true;
  }));
  RETURN_IF_ERROR(store_.Scan(Table::kKernel, "", [&](absl::string_view key, absl::string_view value) {
    v1::KernelRecord record;
    if (Parse(value, record))
      footprint.Add(Table::kKernel, std::string(key), record.touched_unix_ms(), {record.digest()});
    return true;
  }));
  for (Footprint::Item& item : footprint.items()) {
    if (item.table == Table::kKernel) continue;
    ASSIGN_OR_RETURN(v1::UseRecord use, uses_.Get(item.key));
    item.last_used_ms = std::max(item.last_used_ms, use.last_used_unix_ms());
  }
  return footprint;
}

}  // namespace preheat::cache
