#include "cache/artifact_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

absl::Status Incomplete(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "incomplete_artifact", .message = std::move(message), .where = "", .fix = ""});
}

// What a client without torch has to know before it takes the artifact.
std::vector<std::string> ExternOps(const Publication& publication) {
  auto found = publication.blobs.find(publication.manifest.report().digest());
  v1::FusionReport report;
  std::vector<std::string> ops;
  if (found == publication.blobs.end() || !report.ParseFromString(found->second)) return ops;
  for (const v1::ExternCall& call : report.extern_calls()) ops.push_back(call.op());
  return ops;
}

v1::GenerationRecord RecordOf(const Publication& publication) {
  v1::GenerationRecord record;
  *record.mutable_manifest() = publication.manifest;
  record.set_manifest_digest(Digest(publication.manifest.SerializeAsString()));
  for (const std::string& op : ExternOps(publication)) record.add_extern_ops(op);
  for (const v1::BlobRef& blob : NamedBlobs(publication.manifest)) record.set_bytes(record.bytes() + blob.size_bytes());
  return record;
}

}  // namespace

ArtifactIndex::ArtifactIndex(Store& store, Clock clock)
    : store_(store), clock_(clock), blobs_(store, clock), pins_(store, clock), uses_(store, clock) {}

absl::StatusOr<std::vector<v1::GenerationRecord>> ArtifactIndex::Generations(const std::string& key) {
  std::vector<v1::GenerationRecord> records;
  RETURN_IF_ERROR(
      store_.Scan(Table::kGeneration, absl::StrCat(key, "/"), [&](absl::string_view, absl::string_view value) {
        v1::GenerationRecord record;
        if (record.ParseFromArray(value.data(), static_cast<int>(value.size()))) records.push_back(std::move(record));
        return true;
      }));
  return records;
}

absl::StatusOr<bool> ArtifactIndex::Servable(v1::GenerationRecord& record) {
  v1::Manifest& manifest = *record.mutable_manifest();
  std::string at = GenerationKey(manifest.key(), manifest.generation());
  ASSIGN_OR_RETURN(auto evidence, GetRecord<v1::Evidence>(store_, Table::kEvidence, at));
  if (evidence) *manifest.mutable_evidence() = *std::move(evidence);
  if (manifest.evidence().state() == v1::Evidence::FAILED) return false;
  for (const v1::BlobRef& blob : NamedBlobs(manifest)) {
    ASSIGN_OR_RETURN(bool has, blobs_.Has(blob.digest()));
    if (!has) return false;
  }
  return true;
}

absl::StatusOr<std::optional<v1::GenerationRecord>> ArtifactIndex::Lookup(const std::string& key, uint32_t generation) {
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, Generations(key));
  for (auto it = records.rbegin(); it != records.rend(); ++it) {
    if (generation != 0 && it->manifest().generation() != generation) continue;
    ASSIGN_OR_RETURN(bool servable, Servable(*it));
    if (servable) return std::move(*it);
  }
  return std::nullopt;
}

absl::Status ArtifactIndex::CheckBlobs(const Publication& publication) {
  if (!IsDigest(publication.manifest.key())) return Incomplete("the manifest has no key");
  if (publication.manifest.plan().digest().empty()) return Incomplete("the manifest names no plan");
  for (const auto& [digest, bytes] : publication.blobs) {
    if (Digest(bytes) == digest) continue;
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                   .message = "the bytes of a blob do not match its digest",
                                                   .where = digest.substr(0, 80),
                                                   .fix = "compile again"});
  }
  for (const v1::BlobRef& blob : NamedBlobs(publication.manifest)) {
    if (!IsDigest(blob.digest())) return Incomplete("the manifest names a blob that is no digest");
    auto given = publication.blobs.find(blob.digest());
    if (given != publication.blobs.end()) {
      if (static_cast<int64_t>(given->second.size()) == blob.size_bytes()) continue;
      return Incomplete(absl::StrCat("blob ", blob.digest(), " is not of the size that the manifest says"));
    }
    ASSIGN_OR_RETURN(bool has, blobs_.Has(blob.digest()));
    if (!has) return Incomplete(absl::StrCat("the manifest names blob ", blob.digest(), ", which did not come"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ArtifactIndex::NextGeneration(const std::string& key) {
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, Generations(key));
  return records.empty() ? 1 : records.back().manifest().generation() + 1;
}

absl::StatusOr<v1::GenerationRecord> ArtifactIndex::Publish(Publication publication) {
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(CheckBlobs(publication));
  v1::Manifest& manifest = publication.manifest;
  ASSIGN_OR_RETURN(uint32_t generation, NextGeneration(manifest.key()));
  manifest.set_generation(generation);
  manifest.set_created_unix_ms(clock_());
  v1::GenerationRecord record = RecordOf(publication);

  std::vector<std::string> named;
  for (const v1::BlobRef& blob : NamedBlobs(manifest)) named.push_back(blob.digest());
  RETURN_IF_ERROR(blobs_.Touch(named, Durability::kLazy));  // those that did not come along
  publication.blobs[record.manifest_digest()] = manifest.SerializeAsString();
  RETURN_IF_ERROR(blobs_.Put(publication.blobs));

  v1::KeyRecord key_record;
  key_record.mutable_fields()->insert(publication.key_fields.begin(), publication.key_fields.end());
  key_record.set_name(publication.name);
  RETURN_IF_ERROR(store_.Write({PutRecord(Table::kGeneration, GenerationKey(manifest.key(), generation), record),
                                PutRecord(Table::kKey, manifest.key(), key_record)},
                               Durability::kSynced));
  uses_.Record(manifest.key(), 0);
  return record;
}

absl::Status ArtifactIndex::AddEvidence(const std::string& key, uint32_t generation, const v1::Evidence& evidence) {
  return store_.Write({PutRecord(Table::kEvidence, GenerationKey(key, generation), evidence)}, Durability::kSynced);
}

absl::StatusOr<bool> ArtifactIndex::Withdrawn(const std::string& key) {
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, Generations(key));
  if (records.empty()) return false;
  RETURN_IF_ERROR(Servable(records.back()).status());
  return records.back().manifest().evidence().state() == v1::Evidence::FAILED;
}

absl::StatusOr<std::optional<v1::AliasRecord>> ArtifactIndex::FindAlias(const std::string& alias) {
  return GetRecord<v1::AliasRecord>(store_, Table::kAlias, alias);
}

absl::Status ArtifactIndex::PutAlias(const std::string& alias, const v1::AliasRecord& record) {
  return store_.Write({PutRecord(Table::kAlias, alias, record)}, Durability::kLazy);
}

}  // namespace preheat::cache
