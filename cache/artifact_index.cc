#include "cache/artifact_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/rebuild_index.h"
#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

// Numbers are sorted as 8 digits and count up from the last.
constexpr uint32_t kLargestForeignNumber = 1000000;

absl::Status Incomplete(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "incomplete_artifact", .message = std::move(message), .where = "", .fix = ""});
}

std::vector<std::string> DigestsOf(const v1::Manifest& manifest) {
  std::vector<std::string> digests;
  for (const v1::BlobRef& blob : NamedBlobs(manifest)) digests.push_back(blob.digest());
  return digests;
}

uint32_t NextNumber(const std::vector<v1::GenerationRecord>& known) {
  return known.empty() ? 1 : known.back().manifest().generation() + 1;
}

bool SameProgram(const v1::Manifest& a, const v1::Manifest& b) {
  if (a.plan().digest() != b.plan().digest() || a.code_size() != b.code_size()) return false;
  for (int i = 0; i < a.code_size(); ++i) {
    if (a.code(i).digest() != b.code(i).digest()) return false;
  }
  return true;
}

}  // namespace

ArtifactIndex::ArtifactIndex(Store& store, const Clock& clock, Ledger* ledger)
    : store_(store), clock_(clock), ledger_(ledger), blobs_(store, clock), pins_(store, clock), uses_(store, clock) {}

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

absl::StatusOr<v1::GenerationRecord> ArtifactIndex::Publish(Publication publication) {
  Blobs::Hold hold(blobs_, DigestsOf(publication.manifest));
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(CheckBlobs(publication));
  v1::Manifest& manifest = publication.manifest;
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> known, Generations(manifest.key()));
  manifest.set_generation(NextNumber(known));
  manifest.set_created_unix_ms(clock_());
  return WriteGeneration(publication);
}

absl::StatusOr<bool> ArtifactIndex::Adopt(Publication publication) {
  Blobs::Hold hold(blobs_, DigestsOf(publication.manifest));
  std::lock_guard lock(writing_);
  RETURN_IF_ERROR(CheckBlobs(publication));
  v1::Manifest& manifest = publication.manifest;
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> known, Generations(manifest.key()));
  bool taken = manifest.generation() == 0 || manifest.generation() > kLargestForeignNumber;
  for (v1::GenerationRecord& record : known) {
    ASSIGN_OR_RETURN(bool servable, Servable(record));
    if (servable && SameProgram(record.manifest(), manifest)) return false;
    taken |= record.manifest().generation() == manifest.generation();
  }
  if (taken) manifest.set_generation(NextNumber(known));
  if (manifest.created_unix_ms() == 0) manifest.set_created_unix_ms(clock_());
  RETURN_IF_ERROR(WriteGeneration(publication).status());
  return true;
}

absl::StatusOr<v1::GenerationRecord> ArtifactIndex::WriteGeneration(Publication& publication) {
  const v1::Manifest& manifest = publication.manifest;
  auto report = publication.blobs.find(manifest.report().digest());
  v1::GenerationRecord record = RecordOf(manifest, report == publication.blobs.end() ? nullptr : &report->second);
  Blobs::Hold hold_manifest(blobs_, {record.manifest_digest()});
  RETURN_IF_ERROR(blobs_.Touch(DigestsOf(manifest), Durability::kLazy));  // those that did not come along
  publication.blobs[record.manifest_digest()] = manifest.SerializeAsString();
  RETURN_IF_ERROR(blobs_.Put(publication.blobs));

  v1::KeyRecord key_record;
  key_record.mutable_fields()->insert(publication.key_fields.begin(), publication.key_fields.end());
  key_record.set_name(publication.name);
  RETURN_IF_ERROR(
      store_.Write({PutRecord(Table::kGeneration, GenerationKey(manifest.key(), manifest.generation()), record),
                    PutRecord(Table::kKey, manifest.key(), key_record)},
                   Durability::kSynced));
  if (ledger_ != nullptr)
    RETURN_IF_ERROR(ledger_->Add(manifest.key(), manifest.generation(), record.manifest_digest()));
  uses_.Record(manifest.key(), 0);
  return record;
}

absl::StatusOr<ArtifactIndex::Reconciled> ArtifactIndex::Reconcile() {
  Reconciled reconciled;
  if (ledger_ == nullptr) return reconciled;
  std::lock_guard lock(writing_);
  for (const auto& [at, digest] : ledger_->entries()) {
    const auto& [key, generation] = at;
    ASSIGN_OR_RETURN(auto record,
                     GetRecord<v1::GenerationRecord>(store_, Table::kGeneration, GenerationKey(key, generation)));
    if (record) continue;
    ASSIGN_OR_RETURN(int64_t made, RemakeGenerations(store_, {digest}));
    reconciled.remade += made;
    if (made == 0)
      reconciled.lost.push_back(absl::StrCat("generation ", generation, " of ", key,
                                             " is lost; it is compiled again when a job asks for it"));
  }
  Ledger::Entries entries;
  RETURN_IF_ERROR(store_.Scan(Table::kGeneration, "", [&](absl::string_view, absl::string_view value) {
    v1::GenerationRecord record;
    if (record.ParseFromArray(value.data(), static_cast<int>(value.size())))
      entries[{record.manifest().key(), record.manifest().generation()}] = record.manifest_digest();
    return true;
  }));
  RETURN_IF_ERROR(ledger_->Replace(entries));
  return reconciled;
}

absl::Status ArtifactIndex::AddEvidence(const std::string& key, uint32_t generation, const v1::Evidence& evidence) {
  const std::string at = GenerationKey(key, generation);
  std::lock_guard lock(writing_);
  ASSIGN_OR_RETURN(std::optional<std::string> known, store_.Get(Table::kGeneration, at));
  if (!known) return absl::OkStatus();
  return store_.Write({PutRecord(Table::kEvidence, at, evidence)}, Durability::kSynced);
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
