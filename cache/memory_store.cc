#include "cache/memory_store.h"

#include <utility>

#include "absl/strings/match.h"

namespace preheat::cache {

absl::StatusOr<std::optional<std::string>> MemoryStore::Get(Table table, absl::string_view key) {
  std::lock_guard lock(mutex_);
  const auto& entries = tables_[static_cast<size_t>(table)];
  auto found = entries.find(std::string(key));
  return found == entries.end() ? std::nullopt : std::optional(found->second);
}

absl::Status MemoryStore::Write(std::vector<Change> changes, Durability) {
  std::lock_guard lock(mutex_);
  for (Change& change : changes) {
    auto& entries = tables_[static_cast<size_t>(change.table)];
    if (change.value) {
      entries[change.key] = *std::move(change.value);
    } else {
      entries.erase(change.key);
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::Scan(Table table, absl::string_view prefix, const Visit& visit) {
  std::map<std::string, std::string> seen;
  {
    std::lock_guard lock(mutex_);
    const auto& entries = tables_[static_cast<size_t>(table)];
    for (auto it = entries.lower_bound(std::string(prefix)); it != entries.end() && absl::StartsWith(it->first, prefix);
         ++it) {
      seen.insert(*it);
    }
  }
  for (const auto& [key, value] : seen) {
    if (!visit(key, value)) break;
  }
  return absl::OkStatus();
}

}  // namespace preheat::cache
