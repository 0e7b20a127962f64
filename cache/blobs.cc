#include "cache/blobs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {

absl::StatusOr<bool> Blobs::Has(absl::string_view digest) {
  ASSIGN_OR_RETURN(std::optional<std::string> info, store_.Get(Table::kBlobInfo, digest));
  return info.has_value();
}

absl::StatusOr<std::string> Blobs::Read(absl::string_view digest) {
  ASSIGN_OR_RETURN(std::optional<std::string> bytes, store_.Get(Table::kBlob, digest));
  if (bytes) return *std::move(bytes);
  return MakeError(absl::StatusCode::kNotFound,
                   {.kind = "unknown_blob",
                    .message = absl::StrCat("no blob ", digest),
                    .where = "",
                    .fix = "ask for the artifact again: it is compiled anew if its parts are gone"});
}

absl::StatusOr<std::vector<std::string>> Blobs::FindMissing(const std::vector<std::string>& digests) {
  std::vector<std::string> missing, there;
  for (const std::string& digest : digests) {
    if (!IsDigest(digest)) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "not_a_digest",
                                                            .message = "a digest is 64 lower-case hexadecimal digits",
                                                            .where = digest.substr(0, 80),
                                                            .fix = ""});
    }
    ASSIGN_OR_RETURN(bool has, Has(digest));
    (has ? there : missing).push_back(digest);
  }
  RETURN_IF_ERROR(Touch(there, Durability::kLazy));
  return missing;
}

absl::Status Blobs::Put(const std::map<std::string, std::string>& blobs) {
  std::vector<Change> changes;
  for (const auto& [digest, bytes] : blobs) {
    ASSIGN_OR_RETURN(bool has, Has(digest));
    if (!has) changes.push_back({Table::kBlob, digest, bytes});
    v1::BlobRecord record;
    record.set_size_bytes(static_cast<int64_t>(bytes.size()));
    record.set_touched_unix_ms(clock_());
    changes.push_back(PutRecord(Table::kBlobInfo, digest, record));
  }
  return store_.Write(std::move(changes), Durability::kSynced);
}

absl::Status Blobs::Touch(const std::vector<std::string>& digests, Durability durability) {
  std::vector<Change> changes;
  for (const std::string& digest : digests) {
    ASSIGN_OR_RETURN(auto record, GetRecord<v1::BlobRecord>(store_, Table::kBlobInfo, digest));
    if (!record) continue;
    record->set_touched_unix_ms(clock_());
    changes.push_back(PutRecord(Table::kBlobInfo, digest, *record));
  }
  return changes.empty() ? absl::OkStatus() : store_.Write(std::move(changes), durability);
}

}  // namespace preheat::cache
