#include "cache/use_log.h"

#include <algorithm>
#include <utility>

#include "cache/records.h"

namespace preheat::cache {

void UseLog::Record(const std::string& key, int64_t hits) {
  std::lock_guard lock(mutex_);
  v1::UseRecord& record = pending_[key];
  record.set_last_used_unix_ms(clock_());
  record.set_hits(record.hits() + hits);
}

absl::StatusOr<v1::UseRecord> UseLog::Merged(const std::string& key, const v1::UseRecord& pending) {
  ASSIGN_OR_RETURN(auto stored, GetRecord<v1::UseRecord>(store_, Table::kUse, key));
  v1::UseRecord record = stored.value_or(v1::UseRecord());
  record.set_hits(record.hits() + pending.hits());
  record.set_last_used_unix_ms(std::max(record.last_used_unix_ms(), pending.last_used_unix_ms()));
  return record;
}

absl::StatusOr<v1::UseRecord> UseLog::Get(const std::string& key) {
  std::lock_guard flushing(flush_mutex_);
  v1::UseRecord pending;
  {
    std::lock_guard lock(mutex_);
    auto found = pending_.find(key);
    if (found != pending_.end()) pending = found->second;
  }
  return Merged(key, pending);
}

absl::Status UseLog::Flush() {
  std::lock_guard flushing(flush_mutex_);
  std::map<std::string, v1::UseRecord> pending;
  {
    std::lock_guard lock(mutex_);
    pending.swap(pending_);
  }
  std::vector<Change> changes;
  for (const auto& [key, record] : pending) {
    ASSIGN_OR_RETURN(v1::UseRecord merged, Merged(key, record));
    changes.push_back(PutRecord(Table::kUse, key, merged));
  }
  return changes.empty() ? absl::OkStatus() : store_.Write(std::move(changes), Durability::kLazy);
}

}  // namespace preheat::cache
