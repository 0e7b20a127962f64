#include <utility>

#include "cache/artifact_index.h"
#include "cache/records.h"

namespace preheat::cache {
namespace {

v1::Entry EntryOf(const v1::GenerationRecord& record) {
  const v1::Manifest& manifest = record.manifest();
  const v1::StageSeconds& seconds = manifest.seconds();
  v1::Entry entry;
  entry.set_key(manifest.key());
  entry.set_target(manifest.target());
  entry.set_generation(manifest.generation());
  entry.set_tuned(manifest.tuned());
  entry.set_verified(manifest.evidence().state());
  entry.set_bytes(record.bytes());
  entry.set_created_unix_ms(manifest.created_unix_ms());
  entry.set_compile_seconds(seconds.import() + seconds.passes() + seconds.codegen() + seconds.compile() +
                            seconds.tune());
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ArtifactIndex::Keys() {
  std::vector<std::string> keys;
  RETURN_IF_ERROR(store_.Scan(Table::kGeneration, "", [&](absl::string_view at, absl::string_view) {
    if (keys.empty() || keys.back() != KeyOf(at)) keys.emplace_back(KeyOf(at));
    return true;
  }));
  return keys;
}

absl::StatusOr<std::vector<v1::GenerationRecord>> ArtifactIndex::ServableGenerations(const std::string& key) {
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, Generations(key));
  std::vector<v1::GenerationRecord> servable;
  for (v1::GenerationRecord& record : records) {
    ASSIGN_OR_RETURN(bool served, Servable(record));
    if (served) servable.push_back(std::move(record));
  }
  return servable;
}

absl::StatusOr<v1::KeyRecord> ArtifactIndex::DescribeKey(const std::string& key) {
  ASSIGN_OR_RETURN(auto record, GetRecord<v1::KeyRecord>(store_, Table::kKey, key));
  return record.value_or(v1::KeyRecord());
}

absl::StatusOr<std::vector<v1::Entry>> ArtifactIndex::List(absl::string_view key_prefix) {
  std::vector<std::string> keys;
  RETURN_IF_ERROR(store_.Scan(Table::kGeneration, key_prefix, [&](absl::string_view at, absl::string_view) {
    if (keys.empty() || keys.back() != KeyOf(at)) keys.emplace_back(KeyOf(at));
    return true;
  }));
  std::vector<v1::Entry> entries;
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(std::optional<v1::GenerationRecord> record, Lookup(key, 0));
    const bool withdrawn = !record;
    if (withdrawn) {
      ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, Generations(key));
      if (records.empty()) continue;  // removed since the scan
      record = std::move(records.back());
      RETURN_IF_ERROR(Servable(*record).status());
    }
    v1::Entry entry = EntryOf(*record);
    entry.set_withdrawn(withdrawn);
    ASSIGN_OR_RETURN(auto key_record, GetRecord<v1::KeyRecord>(store_, Table::kKey, key));
    if (key_record) entry.set_name(key_record->name());
    ASSIGN_OR_RETURN(v1::UseRecord use, uses_.Get(key));
    entry.set_last_used_unix_ms(use.last_used_unix_ms());
    entry.set_hits(use.hits());
    ASSIGN_OR_RETURN(bool pinned, pins_.IsPinned(key));
    entry.set_pinned(pinned);
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::map<std::string, int64_t>> ArtifactIndex::BytesByNamespace() {
  std::map<std::string, int64_t> bytes;
  RETURN_IF_ERROR(store_.Scan(Table::kGeneration, "", [&](absl::string_view, absl::string_view value) {
    v1::GenerationRecord record;
    if (record.ParseFromArray(value.data(), static_cast<int>(value.size())))
      bytes[record.manifest().name_space()] += record.bytes();
    return true;
  }));
  return bytes;
}

absl::StatusOr<ArtifactIndex::Totals> ArtifactIndex::Count() {
  Totals totals;
  std::string last;
  RETURN_IF_ERROR(store_.Scan(Table::kGeneration, "", [&](absl::string_view at, absl::string_view) {
    if (last != KeyOf(at)) ++totals.entries;
    last = std::string(KeyOf(at));
    return true;
  }));
  RETURN_IF_ERROR(store_.Scan(Table::kBlobInfo, "", [&](absl::string_view, absl::string_view value) {
    v1::BlobRecord record;
    if (record.ParseFromArray(value.data(), static_cast<int>(value.size()))) totals.bytes += record.size_bytes();
    return true;
  }));
  return totals;
}

}  // namespace preheat::cache
