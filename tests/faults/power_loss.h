#ifndef PREHEAT_TESTS_FAULTS_POWER_LOSS_H_
#define PREHEAT_TESTS_FAULTS_POWER_LOSS_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace preheat::faults {

// A disk that loses power: a RocksDB file system over a real folder which remembers what was synced, fails
// everything from a given step on, and then shows what a disk may show once the power is back. Steps are the
// operations that change something: append, sync, truncate, create, rename, delete, and the sync of a folder.
//
// A file keeps its synced bytes and, at random, some of those after them. Entries of a folder that came, went or were
// renamed since the folder was last synced are undone, at random from the end on: file systems keep their order.
// Syncs cost nothing here: the process does not end, so that nothing needs to reach a real disk.
// Safe from several threads at once.
class PowerLoss : public rocksdb::FileSystemWrapper {
 public:
  PowerLoss() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "PowerLoss"; }

  // The step that fails first, counted from 1 and from now on; 0: none does.
  void CutAtStep(int64_t step);
  int64_t steps() const;
  bool is_cut() const;

  // REQUIRES: nothing has a file open. Brings the power back.
  void Restore(uint64_t seed);

  // --- FileSystem ---
  using Options = rocksdb::IOOptions;
  using Context = rocksdb::IODebugContext;
  using Status = rocksdb::IOStatus;
  Status NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                         std::unique_ptr<rocksdb::FSWritableFile>* file, Context* context) override;
  Status ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                            std::unique_ptr<rocksdb::FSWritableFile>* file, Context* context) override;
  Status ReuseWritableFile(const std::string& path, const std::string& old_path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, Context* context) override;
  Status NewDirectory(const std::string& path, const Options& options, std::unique_ptr<rocksdb::FSDirectory>* folder,
                      Context* context) override;
  Status DeleteFile(const std::string& path, const Options& options, Context* context) override;
  Status RenameFile(const std::string& from, const std::string& to, const Options& options, Context* context) override;
  Status LinkFile(const std::string& from, const std::string& to, const Options& options, Context* context) override;
  Status Truncate(const std::string& path, size_t size, const Options& options, Context* context) override;

 private:
  friend class WatchedFile;
  friend class WatchedFolder;

  // One change of a folder that its next sync makes lasting.
  struct Entry {
    enum class Kind { kCreated, kRenamed, kDeleted } kind;
    std::string path;
    std::string from;   // of kRenamed
    std::string saved;  // where the file lies that was deleted or renamed over; empty: there was none
  };

  Status Step();                                  // counts; an error once the power is gone
  void Wrote(const std::string& path);            // no longer all synced
  void Synced(const std::string& path);           // up to its present size
  void FolderSynced(const std::string& path);     // all entries in it
  std::string SetAside(const std::string& path);  // REQUIRES mutex_ held; moves the file away if there is one
  void Undo(const Entry& entry);                  // REQUIRES mutex_ held
  Status Watch(const std::string& path, std::unique_ptr<rocksdb::FSWritableFile>* file);

  mutable std::mutex mutex_;
  int64_t steps_ = 0;  // guarded by mutex_, as all below
  int64_t cut_at_ = 0;
  int64_t set_aside_ = 0;                   // how many files
  std::map<std::string, uint64_t> synced_;  // path -> bytes, of files written since the last Restore
  std::vector<Entry> entries_;              // not yet lasting, in order
};

}  // namespace preheat::faults

#endif  // PREHEAT_TESTS_FAULTS_POWER_LOSS_H_
