#include "cache/rebuild_index.h"

#include <utility>

#include "cache/records.h"
#include "compiler/support/digest.h"

namespace preheat::cache {
namespace {

// What a client without torch has to know before it takes the artifact.
void AddExternOps(const std::string& report_bytes, v1::GenerationRecord& record) {
  v1::FusionReport report;
  if (!report.ParseFromString(report_bytes)) return;
  for (const v1::ExternCall& call : report.extern_calls()) record.add_extern_ops(call.op());
}

absl::StatusOr<bool> Remake(Store& store, const std::string& digest) {
  ASSIGN_OR_RETURN(std::optional<std::string> bytes, store.Get(Table::kBlob, digest));
  if (!bytes || !IsManifest(*bytes)) return false;
  v1::Manifest manifest;
  manifest.ParseFromString(*bytes);
  std::string at = GenerationKey(manifest.key(), manifest.generation());
  ASSIGN_OR_RETURN(auto known, GetRecord<v1::GenerationRecord>(store, Table::kGeneration, at));
  if (known) return false;
  ASSIGN_OR_RETURN(std::optional<std::string> report, store.Get(Table::kBlob, manifest.report().digest()));
  std::vector<Change> changes = {
      PutRecord(Table::kGeneration, std::move(at), RecordOf(manifest, report ? &*report : nullptr))};
  ASSIGN_OR_RETURN(auto key_record, GetRecord<v1::KeyRecord>(store, Table::kKey, manifest.key()));
  if (!key_record) changes.push_back(PutRecord(Table::kKey, manifest.key(), v1::KeyRecord()));
  RETURN_IF_ERROR(store.Write(std::move(changes), Durability::kSynced));
  return true;
}

}  // namespace

bool IsManifest(absl::string_view bytes) {
  // The key is its first field but for one number: most blobs need no parsing.
  const size_t key = bytes.substr(0, 16).find("\x12\x40");
  if (key == absl::string_view::npos || !IsDigest(bytes.substr(key + 2, 64))) return false;
  v1::Manifest manifest;
  return manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && IsDigest(manifest.key()) &&
         IsDigest(manifest.plan().digest()) && manifest.generation() > 0 && manifest.created_unix_ms() > 0;
}

v1::GenerationRecord RecordOf(const v1::Manifest& manifest, const std::string* report) {
  v1::GenerationRecord record;
  *record.mutable_manifest() = manifest;
  record.set_manifest_digest(Digest(manifest.SerializeAsString()));
  if (report != nullptr) AddExternOps(*report, record);
  for (const v1::BlobRef& blob : NamedBlobs(manifest)) record.set_bytes(record.bytes() + blob.size_bytes());
  return record;
}

absl::StatusOr<int64_t> RemakeGenerations(Store& store, const std::vector<std::string>& manifests) {
  int64_t made = 0;
  for (const std::string& digest : manifests) {
    ASSIGN_OR_RETURN(bool one, Remake(store, digest));
    made += one ? 1 : 0;
  }
  return made;
}

}  // namespace preheat::cache
