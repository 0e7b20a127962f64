#include <limits>
#include <set>
#include <utility>

#include "cache/artifact_index.h"
#include "cache/records.h"

namespace preheat::cache {
namespace {

using FieldMap = google::protobuf::Map<std::string, std::string>;

std::string ValueOf(const FieldMap& fields, const std::string& name) {
  auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

std::vector<v1::KeyDifference> Compare(const std::map<std::string, std::string>& wanted, const FieldMap& stored) {
  std::vector<v1::KeyDifference> differences;
  std::set<std::string> names;
  for (const auto& [name, value] : wanted) names.insert(name);
  for (const auto& [name, value] : stored) names.insert(name);
  for (const std::string& name : names) {
    auto found = wanted.find(name);
    v1::KeyDifference difference;
    difference.set_field(name);
    difference.set_wanted(found == wanted.end() ? "" : found->second);
    difference.set_stored(ValueOf(stored, name));
    if (difference.wanted() != difference.stored()) differences.push_back(std::move(difference));
  }
  return differences;
}

// The same program for another target is nearer than another program for the same one.
size_t Distance(const std::vector<v1::KeyDifference>& differences) {
  size_t distance = differences.size();
  for (const v1::KeyDifference& difference : differences) distance += difference.field() == "ir" ? 100 : 0;
  return distance;
}

}  // namespace

absl::StatusOr<std::optional<ArtifactIndex::Nearest>> ArtifactIndex::FindNearest(
    const std::map<std::string, std::string>& key_fields) {
  std::optional<Nearest> nearest;
  size_t best = std::numeric_limits<size_t>::max();
  RETURN_IF_ERROR(store_.Scan(Table::kKey, "", [&](absl::string_view key, absl::string_view value) {
    v1::KeyRecord record;
    if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) return true;
    std::vector<v1::KeyDifference> differences = Compare(key_fields, record.fields());
    if (size_t distance = Distance(differences); distance < best) {
      best = distance;
      nearest = Nearest{std::string(key), std::move(differences)};
    }
    return true;
  }));
  return nearest;
}

}  // namespace preheat::cache
