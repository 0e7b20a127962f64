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

// A kernel that no program asked for in this long is compiled again when one does.
constexpr int64_t kKernelLifetimeMs = int64_t{30} * 24 * 3600 * 1000;

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
  RETURN_IF_ERROR(store_.Write(std::move(changes), Durability::kSynced));
  return true;
}

absl::StatusOr<ArtifactIndex::Swept> ArtifactIndex::Sweep(int64_t min_age_ms, bool dry_run) {
  std::lock_guard lock(writing_);
  std::set<std::string> marked;
  std::vector<Change> changes;
  RETURN_IF_ERROR(MarkGenerations(store_, marked));
  RETURN_IF_ERROR(MarkKernels(store_, clock_(), marked, changes));
  RETURN_IF_ERROR(DropDeadAliases(store_, changes));
  RETURN_IF_ERROR(DeletePrefix(store_, Table::kQuarantine, "", changes));
  Swept swept;
  RETURN_IF_ERROR(store_.Scan(Table::kBlobInfo, "", [&](absl::string_view digest, absl::string_view value) {
    v1::BlobRecord record;
    bool known = Parse(value, record);
    if (marked.count(std::string(digest)) != 0) return true;
    if (known && clock_() - record.touched_unix_ms() < min_age_ms) return true;
    ++swept.blobs;
    swept.bytes += record.size_bytes();
    changes.push_back({Table::kBlobInfo, std::string(digest), std::nullopt});
    changes.push_back({Table::kBlob, std::string(digest), std::nullopt});
    return true;
  }));
  if (!dry_run) RETURN_IF_ERROR(store_.Write(std::move(changes), Durability::kSynced));
  return swept;
}

absl::StatusOr<int64_t> ArtifactIndex::EvictTo(int64_t max_bytes) {
  ASSIGN_OR_RETURN(std::vector<v1::Entry> entries, List(""));
  int64_t total = 0, evicted = 0;
  for (const v1::Entry& entry : entries) total += entry.bytes();
  std::sort(entries.begin(), entries.end(),
            [](const v1::Entry& a, const v1::Entry& b) { return a.last_used_unix_ms() < b.last_used_unix_ms(); });
  for (const v1::Entry& entry : entries) {
    if (total - evicted <= max_bytes) break;
    if (entry.pinned()) continue;
    absl::StatusOr<bool> removed = Remove(entry.key());
    if (absl::IsFailedPrecondition(removed.status())) continue;  // pinned since
    RETURN_IF_ERROR(removed.status());
    if (*removed) evicted += entry.bytes();
  }
  return evicted;
}

}  // namespace preheat::cache
