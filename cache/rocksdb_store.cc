#include "cache/rocksdb_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

constexpr size_t kBlockCacheBytes = 64 << 20;
// Every blob, however small: a blob file says of itself what it holds, so that its blobs outlive the index (salvage.h),
// and index files stay small enough to be checked at each start.
constexpr size_t kLeastBlobFileValue = 0;

absl::Status ToStatus(const rocksdb::Status& status, const std::string& folder) {
  if (status.ok()) return absl::OkStatus();
  std::string text = status.ToString();
  if (status.IsIOError() && absl::StrContains(text, "/LOCK")) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.kind = "data_dir_in_use",
                      .message = absl::StrCat("the store is open in another process: ", text),
                      .where = folder,
                      .fix = "stop the other preheatd, or give this one another --data-dir"});
  }
  // A file that is named and not there is damage too; so is an index of files that speaks of other tables.
  if (status.IsCorruption() || status.IsPathNotFound() || status.IsInvalidArgument() || status.IsNotSupported()) {
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_store",
                                                   .message = absl::StrCat("the store is damaged: ", text),
                                                   .where = folder,
                                                   .fix = "start preheatd again: it keeps what is sound"});
  }
  return MakeError(absl::StatusCode::kUnavailable, {.kind = "store_failed",
                                                    .message = text,
                                                    .where = folder,
                                                    .fix = "check free space and permissions of the data folder"});
}

rocksdb::ColumnFamilyOptions TableOptions(Table table, const RocksdbOptions& given,
                                          const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  rocksdb::BlockBasedTableOptions blocks;
  blocks.block_cache = cache;
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  options.write_buffer_size = given.write_buffer_bytes;
  options.compression = rocksdb::kZSTD;
  if (table == Table::kBlob || table == Table::kQuarantine) {
    options.enable_blob_files = true;
    options.min_blob_size = kLeastBlobFileValue;
    options.blob_compression_type = rocksdb::kZSTD;
    options.blob_cache = cache;
  }
  return options;
}

// What RocksDB writes to its own LOG, and its warnings to us as well.
class WarningLogger : public rocksdb::Logger {
 public:
  WarningLogger(std::shared_ptr<rocksdb::Logger> file, std::function<void(const std::string&)> on_warning)
      : Logger(rocksdb::INFO_LEVEL), file_(std::move(file)), on_warning_(std::move(on_warning)) {}

  using Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level >= rocksdb::WARN_LEVEL && level != rocksdb::HEADER_LEVEL) {
      va_list copy;
      va_copy(copy, arguments);
      char text[1024];
      std::vsnprintf(text, sizeof(text), format, copy);
      va_end(copy);
      on_warning_(text);
    }
    file_->Logv(level, format, arguments);
  }
  void Logv(const char* format, va_list arguments) override { file_->Logv(format, arguments); }

 private:
  const std::shared_ptr<rocksdb::Logger> file_;
  const std::function<void(const std::string&)> on_warning_;
};

// A damaged file that a compaction meets would otherwise end all writing; what reads it is told anyway.
class StayWritable : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    if (error->IsCorruption()) *error = rocksdb::Status::OK();
  }
};

rocksdb::DBOptions DatabaseOptions(const std::string& folder, const RocksdbOptions& given) {
  rocksdb::DBOptions options;
  if (given.env != nullptr) options.env = given.env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  options.max_total_wal_size = 64 << 20;
  options.keep_log_file_num = 2;
  options.listeners.push_back(std::make_shared<StayWritable>());
  options.wal_recovery_mode = given.skip_damaged_log ? rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords
                                                     : rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  if (std::shared_ptr<rocksdb::Logger> file;
      given.on_warning && rocksdb::CreateLoggerFromOptions(folder, options, &file).ok()) {
    options.info_log = std::make_shared<WarningLogger>(std::move(file), given.on_warning);
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

  absl::Status Open(const RocksdbOptions& given) {
    auto cache = rocksdb::NewLRUCache(kBlockCacheBytes);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    families.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
    for (size_t i = 0; i < kTableNames.size(); ++i) {
      families.emplace_back(kTableNames[i], TableOptions(static_cast<Table>(i), given, cache));
    }
    rocksdb::DB* db = nullptr;
    RETURN_IF_ERROR(
        ToStatus(rocksdb::DB::Open(DatabaseOptions(folder_, given), folder_, families, &handles_, &db), folder_));
    db_.reset(db);
    return ToStatus(db_->VerifyChecksum(), folder_);
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

  // Only here are live blobs ever moved, out of the older half of the files, so that those can be dropped.
  absl::Status Reclaim() override {
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
    options.blob_garbage_collection_age_cutoff = 0.5;
    return ToStatus(db_->CompactRange(options, Handle(Table::kBlob), nullptr, nullptr), folder_);
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

absl::StatusOr<std::unique_ptr<Store>> OpenRocksdbStore(const std::string& folder, const RocksdbOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ToStatus(rocksdb::Status::IOError(error.message()), folder);
  auto store = std::make_unique<RocksdbStore>(folder);
  RETURN_IF_ERROR(store->Open(options));
  return store;
}

}  // namespace preheat::cache
