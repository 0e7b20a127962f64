#ifndef PREHEAT_CACHE_RECORDS_H_
#define PREHEAT_CACHE_RECORDS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/store.h"
#include "compiler/support/status_macros.h"
#include "proto/preheat/v1/store.pb.h"

namespace preheat::cache {

// Reads a message from a table. One that does not parse is absent: a cache may forget, it may not fail for good.
template <typename Message>
absl::StatusOr<std::optional<Message>> GetRecord(Store& store, Table table, absl::string_view key) {
  ASSIGN_OR_RETURN(std::optional<std::string> bytes, store.Get(table, key));
  Message message;
  if (!bytes || !message.ParseFromString(*bytes)) return std::nullopt;
  return message;
}

template <typename Message>
Change PutRecord(Table table, std::string key, const Message& message) {
  return {table, std::move(key), message.SerializeAsString()};
}

// "<key>/00000001": generations of a key sort by number.
std::string GenerationKey(absl::string_view key, uint32_t generation);

// The key of a record under "<key>/...", which starts with 64 hexadecimal digits.
absl::string_view KeyOf(absl::string_view record_key);

// Every blob that the manifest names: plan, code, ir, program, source, report.
std::vector<v1::BlobRef> NamedBlobs(const v1::Manifest& manifest);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_RECORDS_H_
