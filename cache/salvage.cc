#include "cache/salvage.h"

#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table_properties.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/clock.h"
#include "cache/raw_files.h"
#include "cache/rebuild_index.h"
#include "cache/records.h"
#include "compiler/support/digest.h"

namespace preheat::cache {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchBytes = 8 << 20;

std::optional<Table> TableNamed(const std::string& name) {
  for (size_t i = 0; i < kTableNames.size(); ++i) {
    if (name == kTableNames[i]) return static_cast<Table>(i);
  }
  return std::nullopt;
}

// Sorted by number, which is the order in which they were begun: it has six digits, or more.
std::vector<std::string> FilesEnding(const std::string& folder, const std::string& ending) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ending) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end(),
            [](const std::string& a, const std::string& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  return paths;
}

class Salvager {
 public:
  Salvager(std::string folder, Store& out, const std::function<void(const std::string&)>& tell)
      : folder_(std::move(folder)), out_(out), tell_(tell) {}

  absl::StatusOr<Salvaged> Run() {
    // Old to new, so that what is newer wins.
    for (const std::string& path : FilesEnding(folder_, ".sst")) RETURN_IF_ERROR(ReadIndexFile(path));
    for (const std::string& path : FilesEnding(folder_, ".blob")) RETURN_IF_ERROR(ReadBlobFile(path));
    for (const std::string& path : FilesEnding(folder_, ".log")) RETURN_IF_ERROR(ReadLogFile(path));
    RETURN_IF_ERROR(Flush());
    RETURN_IF_ERROR(MatchBlobInfos());
    ASSIGN_OR_RETURN(salvaged_.remade, RemakeGenerations(out_, manifests_));
    salvaged_.blobs = static_cast<int64_t>(blobs_.size());
    return std::move(salvaged_);
  }

 private:
  static std::string Name(const std::string& path) { return fs::path(path).filename().string(); }

  absl::Status Add(Change change) {
    pending_bytes_ += change.key.size() + (change.value ? change.value->size() : 0);
    pending_.push_back(std::move(change));
    return pending_bytes_ < kBatchBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    pending_bytes_ = 0;
    return out_.Write(std::exchange(pending_, {}), Durability::kSynced);
  }

  absl::Status AddBlob(absl::string_view digest, std::string bytes) {
    if (!blobs_.insert(std::string(digest)).second) return absl::OkStatus();
    if (IsManifest(bytes)) manifests_.emplace_back(digest);
    v1::BlobRecord info;
    info.set_size_bytes(static_cast<int64_t>(bytes.size()));
    info.set_touched_unix_ms(SystemNowMs());
    RETURN_IF_ERROR(Add(PutRecord(Table::kBlobInfo, std::string(digest), info)));
    return Add({Table::kBlob, std::string(digest), std::move(bytes)});
  }

  absl::Status AddRecord(Table table, absl::string_view key, absl::string_view value) {
    ++salvaged_.records;
    if (table == Table::kEvidence) {
      v1::Evidence evidence;
      bool failed = evidence.ParseFromArray(value.data(), static_cast<int>(value.size())) &&
                    evidence.state() == v1::Evidence::FAILED;
      if (failed) withdrawn_.emplace(key);
      if (!failed && withdrawn_.count(std::string(key)) != 0) return absl::OkStatus();
    }
    return Add({table, std::string(key), std::string(value)});
  }

  // Forwards as far as its blocks check, then backwards from the end: only what lies in damaged blocks is lost.
  absl::Status ReadIndexFile(const std::string& path) {
    rocksdb::SstFileReader reader{rocksdb::Options()};
    rocksdb::Status opened = reader.Open(path);
    if (!opened.ok()) return Note(path, opened.ToString());
    std::optional<Table> table = TableNamed(reader.GetTableProperties()->column_family_name);
    // Blobs are read from their own files, and infos are made with them.
    if (!table || *table == Table::kBlob || *table == Table::kBlobInfo || *table == Table::kQuarantine)
      return absl::OkStatus();
    std::string last;
    std::unique_ptr<rocksdb::Iterator> forward(reader.NewIterator(rocksdb::ReadOptions()));
    for (forward->SeekToFirst(); forward->Valid(); forward->Next()) {
      last = forward->key().ToString();
      RETURN_IF_ERROR(AddRecord(*table, last, View(forward->value())));
    }
    if (forward->status().ok()) return absl::OkStatus();
    RETURN_IF_ERROR(
        Note(path, absl::StrCat(forward->status().ToString(), " (table ", kTableNames[Index(*table)], ")")));
    std::unique_ptr<rocksdb::Iterator> backward(reader.NewIterator(rocksdb::ReadOptions()));
    for (backward->SeekToLast(); backward->Valid() && backward->key().ToString() > last; backward->Prev()) {
      RETURN_IF_ERROR(AddRecord(*table, View(backward->key()), View(backward->value())));
    }
    return absl::OkStatus();
  }

  absl::Status ReadBlobFile(const std::string& path) {
    tell_(absl::StrCat("reading ", Name(path), ": ", blobs_.size(), " blobs so far"));
    absl::Status failed;
    ASSIGN_OR_RETURN(RawScan scan, ScanBlobFile(path, [&](absl::string_view digest, std::string bytes) {
                       if (failed.ok()) failed = AddBlob(digest, std::move(bytes));
                     }));
    if (scan.damaged_bytes > 0)
      RETURN_IF_ERROR(Note(path, absl::StrCat(scan.damaged_bytes, " bytes are of no sound blob")));
    return failed;
  }

  absl::Status ReadLogFile(const std::string& path);

  absl::Status Note(const std::string& path, const std::string& what) {
    salvaged_.damage.push_back(absl::StrCat(Name(path), ": ", what));
    tell_(salvaged_.damage.back());
    return absl::OkStatus();
  }

  // Infos of blobs that are not there would promise what nobody can fetch.
  absl::Status MatchBlobInfos() {
    std::vector<Change> orphans;
    RETURN_IF_ERROR(out_.Scan(Table::kBlobInfo, "", [&](absl::string_view digest, absl::string_view) {
      if (blobs_.count(std::string(digest)) == 0)
        orphans.push_back({Table::kBlobInfo, std::string(digest), std::nullopt});
      return true;
    }));
    return out_.Write(std::move(orphans), Durability::kSynced);
  }

  static absl::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
  static size_t Index(Table table) { return static_cast<size_t>(table); }

  friend class LogReplay;
  const std::string folder_;
  Store& out_;
  const std::function<void(const std::string&)>& tell_;
  Salvaged salvaged_;
  std::vector<Change> pending_;
  size_t pending_bytes_ = 0;
  std::set<std::string> blobs_, withdrawn_;
  std::vector<std::string> manifests_;  // digests
};

// Applies the batches of a log. Column families have been numbered in the order of the tables since the first opening;
// 0 is RocksDB's own.
class LogReplay : public rocksdb::WriteBatch::Handler {
 public:
  explicit LogReplay(Salvager& salvager) : salvager_(salvager) {}
  const absl::Status& status() const { return status_; }

  rocksdb::Status PutCF(uint32_t family, const rocksdb::Slice& key, const rocksdb::Slice& value) override {
    std::optional<Table> table = TableOf(family);
    if (!table || *table == Table::kBlobInfo || *table == Table::kQuarantine) return rocksdb::Status::OK();
    if (*table != Table::kBlob) return Keep(salvager_.AddRecord(*table, Salvager::View(key), Salvager::View(value)));
    if (Digest(Salvager::View(value)) != Salvager::View(key)) return rocksdb::Status::OK();
    return Keep(salvager_.AddBlob(Salvager::View(key), value.ToString()));
  }
  rocksdb::Status DeleteCF(uint32_t family, const rocksdb::Slice& key) override {
    std::optional<Table> table = TableOf(family);
    if (!table || *table == Table::kQuarantine) return rocksdb::Status::OK();
    if (*table == Table::kBlob) salvager_.blobs_.erase(key.ToString());
    return Keep(salvager_.Add({*table, key.ToString(), std::nullopt}));
  }
  void LogData(const rocksdb::Slice&) override {}
  rocksdb::Status MarkNoop(bool) override { return rocksdb::Status::OK(); }

 private:
  static std::optional<Table> TableOf(uint32_t family) {
    if (family == 0 || family > kTableNames.size()) return std::nullopt;
    return static_cast<Table>(family - 1);
  }
  rocksdb::Status Keep(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return status_.ok() ? rocksdb::Status::OK() : rocksdb::Status::Aborted();
  }

  Salvager& salvager_;
  absl::Status status_;
};

absl::Status Salvager::ReadLogFile(const std::string& path) {
  LogReplay replay(*this);
  int64_t odd = 0;
  ASSIGN_OR_RETURN(RawScan scan, ScanLogFile(path, [&](std::string batch) {
                     if (!rocksdb::WriteBatch(std::move(batch)).Iterate(&replay).ok()) ++odd;
                   }));
  RETURN_IF_ERROR(replay.status());
  if (scan.damaged_bytes > 0)
    RETURN_IF_ERROR(Note(path, absl::StrCat(scan.damaged_bytes, " bytes are of no sound record")));
  if (odd > 0) RETURN_IF_ERROR(Note(path, absl::StrCat(odd, " records are of no known kind")));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Salvaged> Salvage(const std::string& folder, Store& out,
                                 const std::function<void(const std::string&)>& tell) {
  return Salvager(folder, out, tell).Run();
}

}  // namespace preheat::cache
