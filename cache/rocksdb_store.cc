#include "cache/rocksdb_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

constexpr size_t kBlockCacheBytes = 64 << 20;
constexpr size_t kWriteBufferBytes = 16 << 20;
constexpr size_t kLeastBlobFileValue = 4096;

absl::Status ToStatus(const rocksdb::Status& status, const std::string& folder) {
  if (status.ok()) return absl::OkStatus();
  std::string text = status.ToString();
  if (absl::StrContains(text, "LOCK") || absl::StrContains(text, "lock ")) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.kind = "data_dir_in_use",
                      .message = absl::StrCat("the store is open in another process: ", text),
                      .where = folder,
                      .fix = "stop the other preheatd, or give this one another --data-dir"});
  }
  if (status.IsCorruption()) {
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_store",
                                                   .message = absl::StrCat("the store cannot be read: ", text),
                                                   .where = folder,
                                                   .fix = "move the folder away; a cache refills itself"});
  }
  return MakeError(absl::StatusCode::kUnavailable, {.kind = "store_failed",
                                                    .message = text,
                                                    .where = folder,
                                                    .fix = "check free space and permissions of the data folder"});
}

rocksdb::ColumnFamilyOptions TableOptions(Table table, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  rocksdb::BlockBasedTableOptions blocks;
  blocks.block_cache = cache;
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  options.write_buffer_size = kWriteBufferBytes;
  options.compression = rocksdb::kZSTD;
  if (table == Table::kBlob || table == Table::kQuarantine) {
    options.enable_blob_files = true;
    options.min_blob_size = kLeastBlobFileValue;
    options.blob_compression_type = rocksdb::kZSTD;
    options.enable_blob_garbage_collection = true;
  }
  return options;
}

class RocksdbStore : public Store {
 public:
  explicit RocksdbStore(std::string folder) : folder_(std::move(folder)) {}

  ~RocksdbStore() override {
    if (db_ == nullptr) return;
    for (auto* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
    db_->Close();
  }

  absl::Status Open() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.max_background_jobs = 2;
    options.max_total_wal_size = 64 << 20;
    options.keep_log_file_num = 2;
    auto cache = rocksdb::NewLRUCache(kBlockCacheBytes);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    families.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
    for (size_t i = 0; i < kTableNames.size(); ++i) {
      families.emplace_back(kTableNames[i], TableOptions(static_cast<Table>(i), cache));
    }
    rocksdb::DB* db = nullptr;
    RETURN_IF_ERROR(ToStatus(rocksdb::DB::Open(options, folder_, families, &handles_, &db), folder_));
    db_.reset(db);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) override {
    std::string value;
    rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), Handle(table), Slice(key), &value);
    if (status.IsNotFound()) return std::nullopt;
    RETURN_IF_ERROR(ToStatus(status, folder_));
    return value;
  }

  absl::Status Write(std::vector<Change> changes, Durability durability) override {
    rocksdb::WriteBatch batch;
    for (const Change& change : changes) {
      rocksdb::Status added = change.value ? batch.Put(Handle(change.table), change.key, *change.value)
                                           : batch.Delete(Handle(change.table), change.key);
      RETURN_IF_ERROR(ToStatus(added, folder_));
    }
    rocksdb::WriteOptions options;
    options.sync = durability == Durability::kSynced;
    return ToStatus(db_->Write(options, &batch), folder_);
  }

  absl::Status Scan(Table table, absl::string_view prefix, const Visit& visit) override {
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions(), Handle(table)));
    for (it->Seek(Slice(prefix)); it->Valid() && it->key().starts_with(Slice(prefix)); it->Next()) {
      if (!visit(View(it->key()), View(it->value()))) break;
    }
    return ToStatus(it->status(), folder_);
  }

 private:
  static rocksdb::Slice Slice(absl::string_view text) { return {text.data(), text.size()}; }
  static absl::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
  // The default family, which RocksDB insists on, is first and stays empty.
  rocksdb::ColumnFamilyHandle* Handle(Table table) const { return handles_[static_cast<size_t>(table) + 1]; }

  const std::string folder_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenRocksdbStore(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ToStatus(rocksdb::Status::IOError(error.message()), folder);
  auto store = std::make_unique<RocksdbStore>(folder);
  RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace preheat::cache
