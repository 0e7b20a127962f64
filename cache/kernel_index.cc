#include "cache/kernel_index.h"

#include <utility>

#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

v1::KernelRecord RecordOf(const std::string& digest, int64_t now_ms) {
  v1::KernelRecord record;
  record.set_digest(digest);
  record.set_touched_unix_ms(now_ms);
  return record;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> KernelIndex::Lookup(const std::vector<std::string>& keys) {
  std::map<std::string, std::string> objects;
  std::vector<Change> touches;
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(auto record, GetRecord<v1::KernelRecord>(store_, Table::kKernel, key));
    if (!record) continue;
    auto bytes = blobs_.Read(record->digest());
    if (absl::IsNotFound(bytes.status())) continue;
    RETURN_IF_ERROR(bytes.status());
    objects[key] = *std::move(bytes);
    touches.push_back(PutRecord(Table::kKernel, key, RecordOf(record->digest(), clock_())));
  }
  if (!touches.empty()) RETURN_IF_ERROR(store_.Write(std::move(touches), Durability::kLazy));
  return objects;
}

absl::Status KernelIndex::Publish(const std::map<std::string, std::string>& objects) {
  std::map<std::string, std::string> blobs;
  std::vector<Change> records;
  for (const auto& [key, bytes] : objects) {
    if (!IsDigest(key)) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.kind = "not_a_digest",
                        .message = "a kernel key is 64 lower-case hexadecimal digits",
                        .where = key.substr(0, 80),
                        .fix = ""});
    }
    std::string digest = Digest(bytes);
    blobs[digest] = bytes;
    records.push_back(PutRecord(Table::kKernel, key, RecordOf(digest, clock_())));
  }
  std::vector<std::string> digests;
  digests.reserve(blobs.size());
  for (const auto& [digest, bytes] : blobs) digests.push_back(digest);
  Blobs::Hold hold(blobs_, std::move(digests));
  RETURN_IF_ERROR(blobs_.Put(blobs));
  return store_.Write(std::move(records), Durability::kSynced);
}

}  // namespace preheat::cache
