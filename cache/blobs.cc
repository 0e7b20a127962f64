#include "cache/blobs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

constexpr size_t kRemovedAtOnce = 256;  // so that writers get their turn during a long sweep

absl::Status NotADigest(const std::string& text) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "not_a_digest",
                                                        .message = "a digest is 64 lower-case hexadecimal digits",
                                                        .where = text.substr(0, 80),
                                                        .fix = ""});
}

}  // namespace

absl::StatusOr<bool> Blobs::Has(absl::string_view digest) {
  ASSIGN_OR_RETURN(std::optional<std::string> info, store_.Get(Table::kBlobInfo, digest));
  return info.has_value();
}

absl::StatusOr<std::string> Blobs::Read(absl::string_view digest) {
  ASSIGN_OR_RETURN(std::optional<std::string> bytes, store_.Get(Table::kBlob, digest));
  if (bytes) return *std::move(bytes);
  ASSIGN_OR_RETURN(bytes, ReadOrForget(digest));
  if (bytes) return *std::move(bytes);
  return MakeError(absl::StatusCode::kNotFound,
                   {.kind = "unknown_blob",
                    .message = absl::StrCat("no blob ", digest),
                    .where = "",
                    .fix = "ask for the artifact again: it is compiled anew if its parts are gone"});
}

// A record that promises bytes which are gone would be a hit that nobody can fetch. Looked at again without writers:
// one may have put them since.
absl::StatusOr<std::optional<std::string>> Blobs::ReadOrForget(absl::string_view digest) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(bool promised, Has(digest));
  if (!promised) return std::nullopt;
  ASSIGN_OR_RETURN(std::optional<std::string> bytes, store_.Get(Table::kBlob, digest));
  if (!bytes) {
    RETURN_IF_ERROR(store_.Write({{Table::kBlobInfo, std::string(digest), std::nullopt}}, Durability::kSynced));
  }
  return bytes;
}

absl::StatusOr<std::vector<std::string>> Blobs::FindMissing(const std::vector<std::string>& digests) {
  for (const std::string& digest : digests) {
    if (!IsDigest(digest)) return NotADigest(digest);
  }
  std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  std::vector<Change> touches;
  for (const std::string& digest : digests) {
    ASSIGN_OR_RETURN(auto record, GetRecord<v1::BlobRecord>(store_, Table::kBlobInfo, digest));
    if (!record) {
      missing.push_back(digest);
      continue;
    }
    record->set_touched_unix_ms(clock_());
    touches.push_back(PutRecord(Table::kBlobInfo, digest, *record));
  }
  if (!touches.empty()) RETURN_IF_ERROR(store_.Write(std::move(touches), Durability::kLazy));
  return missing;
}

absl::Status Blobs::Put(const std::map<std::string, std::string>& blobs) {
  std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  for (const auto& [digest, bytes] : blobs) {
    // Read rather than looked up: one that has become corrupt is replaced while its bytes are at hand.
    ASSIGN_OR_RETURN(std::optional<std::string> stored, store_.Get(Table::kBlob, digest));
    if (!stored) changes.push_back({Table::kBlob, digest, bytes});
    v1::BlobRecord record;
    record.set_size_bytes(static_cast<int64_t>(bytes.size()));
    record.set_touched_unix_ms(clock_());
    changes.push_back(PutRecord(Table::kBlobInfo, digest, record));
  }
  return store_.Write(std::move(changes), Durability::kSynced);
}

absl::Status Blobs::Touch(const std::vector<std::string>& digests, Durability durability) {
  std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  for (const std::string& digest : digests) {
    ASSIGN_OR_RETURN(auto record, GetRecord<v1::BlobRecord>(store_, Table::kBlobInfo, digest));
    if (!record) continue;
    record->set_touched_unix_ms(clock_());
    changes.push_back(PutRecord(Table::kBlobInfo, digest, *record));
  }
  return changes.empty() ? absl::OkStatus() : store_.Write(std::move(changes), durability);
}

Blobs::Hold::Hold(Blobs& blobs, std::vector<std::string> digests) : blobs_(blobs), digests_(std::move(digests)) {
  std::lock_guard lock(blobs_.mutex_);
  blobs_.held_.insert(digests_.begin(), digests_.end());
}

Blobs::Hold::~Hold() {
  std::lock_guard lock(blobs_.mutex_);
  for (const std::string& digest : digests_) blobs_.held_.erase(blobs_.held_.find(digest));
}

std::set<std::string> Blobs::Held() {
  std::lock_guard lock(mutex_);
  return {held_.begin(), held_.end()};
}

absl::StatusOr<Blobs::Swept> Blobs::RemoveUntouched(const std::vector<std::string>& digests, int64_t since_ms,
                                                    bool dry_run) {
  Swept swept;
  for (size_t at = 0; at < digests.size(); at += kRemovedAtOnce) {
    std::lock_guard lock(mutex_);
    std::vector<Change> changes;
    for (size_t i = at; i < std::min(digests.size(), at + kRemovedAtOnce); ++i) {
      if (held_.count(digests[i]) != 0) continue;
      ASSIGN_OR_RETURN(auto record, GetRecord<v1::BlobRecord>(store_, Table::kBlobInfo, digests[i]));
      if (record && record->touched_unix_ms() >= since_ms) continue;
      ++swept.blobs;
      swept.bytes += record ? record->size_bytes() : 0;
      changes.push_back({Table::kBlobInfo, digests[i], std::nullopt});
      changes.push_back({Table::kBlob, digests[i], std::nullopt});
    }
    // Lazy: what a crash brings back goes with the next sweep.
    if (!dry_run && !changes.empty()) RETURN_IF_ERROR(store_.Write(std::move(changes), Durability::kLazy));
  }
  return swept;
}

}  // namespace preheat::cache
