#include "cache/pins.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/records.h"

namespace preheat::cache {
namespace {

// A use is written at most this often: pins live for days.
constexpr int64_t kTouchMs = 3600 * 1000;

}  // namespace

absl::Status Pins::Write(const std::string& record_key, uint32_t generation, Durability durability) {
  v1::PinRecord record;
  record.set_generation(generation);
  record.set_last_used_unix_ms(clock_());
  return store_.Write({PutRecord(Table::kPin, record_key, record)}, durability);
}

absl::Status Pins::Pin(const std::string& key, const std::string& job, uint32_t generation) {
  return Write(absl::StrCat(key, "/", job), generation, Durability::kSynced);
}

absl::Status Pins::Unpin(const std::string& key, const std::string& job) {
  return store_.Write({{Table::kPin, absl::StrCat(key, "/", job), std::nullopt}}, Durability::kSynced);
}

absl::StatusOr<std::optional<uint32_t>> Pins::Find(const std::string& key, const std::string& job) {
  std::string record_key = absl::StrCat(key, "/", job);
  ASSIGN_OR_RETURN(auto record, GetRecord<v1::PinRecord>(store_, Table::kPin, record_key));
  if (!record || Expired(record->last_used_unix_ms())) return std::nullopt;
  if (clock_() - record->last_used_unix_ms() > kTouchMs) {
    RETURN_IF_ERROR(Write(record_key, record->generation(), Durability::kLazy));
  }
  return record->generation();
}

absl::StatusOr<bool> Pins::IsPinned(const std::string& key) {
  bool pinned = false;
  RETURN_IF_ERROR(store_.Scan(Table::kPin, absl::StrCat(key, "/"), [&](absl::string_view, absl::string_view value) {
    v1::PinRecord record;
    pinned =
        record.ParseFromArray(value.data(), static_cast<int>(value.size())) && !Expired(record.last_used_unix_ms());
    return !pinned;
  }));
  return pinned;
}

}  // namespace preheat::cache
