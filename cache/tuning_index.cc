#include "cache/tuning_index.h"

#include <optional>
#include <utility>

#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {

absl::StatusOr<std::map<std::string, std::string>> TuningIndex::Lookup(const std::vector<std::string>& keys) {
  std::map<std::string, std::string> records;
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(std::optional<std::string> record, store_.Get(Table::kTuning, key));
    if (!record) continue;
    records[key] = *std::move(record);
    uses_.Record(key, 1);
  }
  return records;
}

absl::Status TuningIndex::Put(const std::map<std::string, std::string>& records) {
  std::vector<Change> changes;
  for (const auto& [key, record] : records) {
    if (!IsDigest(key)) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.kind = "not_a_digest",
                        .message = "a tuning key is 64 lower-case hexadecimal digits",
                        .where = key.substr(0, 80),
                        .fix = ""});
    }
    changes.push_back({Table::kTuning, key, record});
    uses_.Record(key, 0);
  }
  // Without them a region is measured again: no reason to wait for the disk.
  return changes.empty() ? absl::OkStatus() : store_.Write(std::move(changes), Durability::kLazy);
}

}  // namespace preheat::cache
