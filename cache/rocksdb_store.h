#ifndef PREHEAT_CACHE_ROCKSDB_STORE_H_
#define PREHEAT_CACHE_ROCKSDB_STORE_H_

#include <functional>
#include <memory>
#include <string>

#include "cache/store.h"

namespace rocksdb {
class Env;
}

namespace preheat::cache {

struct RocksdbOptions {
  rocksdb::Env* env = nullptr;           // the real one when null; must outlive the store
  size_t write_buffer_bytes = 16 << 20;  // of one table in memory; tests make it small, to have files soon

  // False: a write-ahead log with anything odd in it, if only a torn last record, is "corrupt_store". True: records
  // that cannot be read are skipped, and on_warning is told of each (RocksDB's words, from the opening thread and later
  // ones).
  bool skip_damaged_log = false;
  std::function<void(const std::string&)> on_warning;
};

// Opens or creates a store in the folder: one column family a table, blobs in blob files compressed by zstd, so that
// compaction never copies them. Before it returns, every index file has been read and its checksums hold; blobs are
// checked when they are read (verifying_store.h). open_store.h opens what this refuses.
// FAILED_PRECONDITION "data_dir_in_use" when another process has it open, DATA_LOSS "corrupt_store" when something in
// it does not check, UNAVAILABLE "store_failed" otherwise.
// The store answers DATA_LOSS for a single value that does not check.
absl::StatusOr<std::unique_ptr<Store>> OpenRocksdbStore(const std::string& folder, const RocksdbOptions& options = {});

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_ROCKSDB_STORE_H_
