#ifndef PREHEAT_CACHE_ROCKSDB_STORE_H_
#define PREHEAT_CACHE_ROCKSDB_STORE_H_

#include <memory>
#include <string>

#include "cache/store.h"

namespace preheat::cache {

// Opens or creates a store in the folder: one column family a table, blobs in blob files compressed by zstd, so that
// compaction never copies them. Repairs what a crash left (the write-ahead log).
// FAILED_PRECONDITION "data_dir_in_use" when another process has it open, DATA_LOSS "corrupt_store" when it cannot be
// read, UNAVAILABLE "store_failed" otherwise.
absl::StatusOr<std::unique_ptr<Store>> OpenRocksdbStore(const std::string& folder);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_ROCKSDB_STORE_H_
