#ifndef PREHEAT_CACHE_MEMORY_STORE_H_
#define PREHEAT_CACHE_MEMORY_STORE_H_

#include <map>
#include <mutex>

#include "cache/store.h"

namespace preheat::cache {

// A store that forgets: for tests, and for servers that are told to keep nothing.
class MemoryStore : public Store {
 public:
  absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) override;
  absl::Status Write(std::vector<Change> changes, Durability durability) override;
  absl::Status Scan(Table table, absl::string_view prefix, const Visit& visit) override;

 private:
  std::mutex mutex_;
  std::array<std::map<std::string, std::string>, kTableNames.size()> tables_;
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_MEMORY_STORE_H_
