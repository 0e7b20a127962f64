#include "tests/faults/power_loss.h"

#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace preheat::faults {
namespace {

std::string FolderOf(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }
std::string Clean(const std::string& path) {
  std::string clean = std::filesystem::path(path).lexically_normal().string();
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  return clean;
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

}  // namespace

class WatchedFile : public rocksdb::FSWritableFileOwnerWrapper {
  using Status = PowerLoss::Status;
  using Options = PowerLoss::Options;
  using Context = PowerLoss::Context;

 public:
  WatchedFile(std::string path, PowerLoss& power, std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), path_(std::move(path)), power_(power) {}

  Status Append(const rocksdb::Slice& data, const Options& options, Context* context) override {
    if (Status status = power_.Step(); !status.ok()) return status;
    return target()->Append(data, options, context);
  }
  Status Append(const rocksdb::Slice& data, const Options& options, const rocksdb::DataVerificationInfo&,
                Context* context) override {
    return Append(data, options, context);
  }
  Status Truncate(uint64_t size, const Options& options, Context* context) override {
    if (Status status = power_.Step(); !status.ok()) return status;
    return target()->Truncate(size, options, context);
  }
  Status Sync(const Options& options, Context* context) override {
    if (Status status = power_.Step(); !status.ok()) return status;
    Status flushed = target()->Flush(options, context);
    if (flushed.ok()) power_.Synced(path_);
    return flushed;
  }
  Status Fsync(const Options& options, Context* context) override { return Sync(options, context); }
  // A hint; promises nothing.
  Status RangeSync(uint64_t, uint64_t, const Options&, Context*) override { return Status::OK(); }

 private:
  const std::string path_;
  PowerLoss& power_;
};

class WatchedFolder : public rocksdb::FSDirectoryWrapper {
 public:
  WatchedFolder(std::string path, PowerLoss& power, std::unique_ptr<rocksdb::FSDirectory> folder)
      : FSDirectoryWrapper(std::move(folder)), path_(std::move(path)), power_(power) {}

  PowerLoss::Status Fsync(const PowerLoss::Options&, PowerLoss::Context*) override {
    if (PowerLoss::Status status = power_.Step(); !status.ok()) return status;
    power_.FolderSynced(path_);
    return PowerLoss::Status::OK();
  }
  PowerLoss::Status FsyncWithDirOptions(const PowerLoss::Options& options, PowerLoss::Context* context,
                                        const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, context);
  }

 private:
  const std::string path_;
  PowerLoss& power_;
};

void PowerLoss::CutAtStep(int64_t step) {
  std::lock_guard lock(mutex_);
  steps_ = 0;
  cut_at_ = step;
}
int64_t PowerLoss::steps() const {
  std::lock_guard lock(mutex_);
  return steps_;
}
bool PowerLoss::is_cut() const {
  std::lock_guard lock(mutex_);
  return cut_at_ != 0 && steps_ >= cut_at_;
}

PowerLoss::Status PowerLoss::Step() {
  std::lock_guard lock(mutex_);
  ++steps_;
  return cut_at_ != 0 && steps_ >= cut_at_ ? Status::IOError("the power is gone") : Status::OK();
}

void PowerLoss::Synced(const std::string& path) {
  std::lock_guard lock(mutex_);
  synced_[path] = SizeOf(path);
}

void PowerLoss::FolderSynced(const std::string& path) {
  std::lock_guard lock(mutex_);
  std::vector<Entry> left;
  for (Entry& entry : entries_) {
    if (FolderOf(entry.path) != path) {
      left.push_back(std::move(entry));
    } else if (!entry.saved.empty()) {
      std::filesystem::remove(entry.saved);
    }
  }
  entries_ = std::move(left);
}

PowerLoss::Status PowerLoss::Watch(const std::string& path, std::unique_ptr<rocksdb::FSWritableFile>* file) {
  *file = std::make_unique<WatchedFile>(path, *this, std::move(*file));
  return Status::OK();
}

std::string PowerLoss::SetAside(const std::string& path) {
  if (!std::filesystem::exists(path)) return "";
  std::string aside = absl::StrCat(FolderOf(path), ".aside/", ++set_aside_);
  std::filesystem::create_directories(FolderOf(aside));
  std::filesystem::rename(path, aside);
  return aside;
}

PowerLoss::Status PowerLoss::NewWritableFile(const std::string& raw, const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSWritableFile>* file, Context* context) {
  const std::string path = Clean(raw);
  if (Status status = Step(); !status.ok()) return status;
  {
    std::lock_guard lock(mutex_);
    entries_.push_back({Entry::Kind::kCreated, path, "", SetAside(path)});
    synced_[path] = 0;
  }
  if (Status status = target()->NewWritableFile(path, options, file, context); !status.ok()) return status;
  return Watch(path, file);
}

PowerLoss::Status PowerLoss::ReopenWritableFile(const std::string& raw, const rocksdb::FileOptions& options,
                                                std::unique_ptr<rocksdb::FSWritableFile>* file, Context* context) {
  const std::string path = Clean(raw);
  if (Status status = Step(); !status.ok()) return status;
  {
    std::lock_guard lock(mutex_);
    if (!std::filesystem::exists(path)) entries_.push_back({Entry::Kind::kCreated, path, "", ""});
    synced_.emplace(path, SizeOf(path));
  }
  if (Status status = target()->ReopenWritableFile(path, options, file, context); !status.ok()) return status;
  return Watch(path, file);
}

PowerLoss::Status PowerLoss::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                               const rocksdb::FileOptions& options,
                                               std::unique_ptr<rocksdb::FSWritableFile>* file, Context* context) {
  if (Status status = RenameFile(old_path, path, options.io_options, context); !status.ok()) return status;
  return ReopenWritableFile(path, options, file, context);
}

PowerLoss::Status PowerLoss::NewDirectory(const std::string& raw, const Options& options,
                                          std::unique_ptr<rocksdb::FSDirectory>* folder, Context* context) {
  const std::string path = Clean(raw);
  if (Status status = target()->NewDirectory(path, options, folder, context); !status.ok()) return status;
  *folder = std::make_unique<WatchedFolder>(path, *this, std::move(*folder));
  return Status::OK();
}

PowerLoss::Status PowerLoss::DeleteFile(const std::string& raw, const Options&, Context*) {
  const std::string path = Clean(raw);
  if (Status status = Step(); !status.ok()) return status;
  std::lock_guard lock(mutex_);
  std::string aside = SetAside(path);
  if (aside.empty()) return Status::PathNotFound(path);
  entries_.push_back({Entry::Kind::kDeleted, path, "", std::move(aside)});
  return Status::OK();
}

PowerLoss::Status PowerLoss::RenameFile(const std::string& raw_from, const std::string& raw_to, const Options& options,
                                        Context* context) {
  const std::string from = Clean(raw_from), to = Clean(raw_to);
  if (Status status = Step(); !status.ok()) return status;
  std::lock_guard lock(mutex_);
  if (!std::filesystem::exists(from)) return Status::PathNotFound(from);
  std::string aside = SetAside(to);
  if (Status status = target()->RenameFile(from, to, options, context); !status.ok()) return status;
  entries_.push_back({Entry::Kind::kRenamed, to, from, std::move(aside)});
  auto moved = synced_.extract(from);
  synced_.erase(to);
  if (!moved.empty()) {
    moved.key() = to;
    synced_.insert(std::move(moved));
  }
  return Status::OK();
}

PowerLoss::Status PowerLoss::LinkFile(const std::string&, const std::string&, const Options&, Context*) {
  return Status::NotSupported("no links here");
}

PowerLoss::Status PowerLoss::Truncate(const std::string& path, size_t size, const Options& options, Context* context) {
  if (Status status = Step(); !status.ok()) return status;
  return target()->Truncate(path, size, options, context);
}

// The synced length travels with the file: what was deleted comes back as its syncs left it.
void PowerLoss::Undo(const Entry& entry) {
  if (entry.kind == Entry::Kind::kRenamed) {
    std::filesystem::rename(entry.path, entry.from);
    auto moved = synced_.extract(entry.path);
    if (!moved.empty()) {
      moved.key() = entry.from;
      synced_.insert(std::move(moved));
    }
  } else if (entry.kind == Entry::Kind::kCreated) {
    std::filesystem::remove(entry.path);
    synced_.erase(entry.path);
  }
  if (!entry.saved.empty()) std::filesystem::rename(entry.saved, entry.path);
}

void PowerLoss::Restore(uint64_t seed) {
  std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  size_t lasting = entries_.empty() ? 0 : random() % (entries_.size() + 1);
  while (entries_.size() > lasting) {
    Undo(entries_.back());
    entries_.pop_back();
  }
  for (const Entry& entry : entries_) {
    if (!entry.saved.empty()) std::filesystem::remove(entry.saved);
  }
  for (const auto& [path, synced] : synced_) {
    uint64_t size = SizeOf(path);
    if (size > synced) std::filesystem::resize_file(path, synced + random() % (size - synced + 1));
  }
  entries_.clear();
  synced_.clear();
  steps_ = cut_at_ = 0;
}

}  // namespace preheat::faults
