#ifndef PREHEAT_CACHE_LEDGER_H_
#define PREHEAT_CACHE_LEDGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace preheat::cache {

// A second account of which generations were acknowledged, as lines of text in a file of its own: a damaged database
// cannot say what it has forgotten, this can, by name. Each line ends with a check of itself, so damage costs lines,
// not the file. Safe from several threads at once.
class Ledger {
 public:
  // (key, generation) -> digest of the manifest.
  using Entries = std::map<std::pair<std::string, uint32_t>, std::string>;

  // Reads or begins the file. UNAVAILABLE "store_failed".
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(const std::string& path);
  ~Ledger();

  // As the file said when it was opened.
  const Entries& entries() const { return entries_; }
  int64_t damaged_lines() const { return damaged_lines_; }

  // On disk when they return. Add after the index has the generation, Remove before it lets go of it: what the ledger
  // names is then in the index.
  absl::Status Add(const std::string& key, uint32_t generation, const std::string& manifest_digest);
  absl::Status Remove(const std::string& key);

  // From now on exactly these; in one step.
  absl::Status Replace(const Entries& entries);

 private:
  explicit Ledger(std::string path) : path_(std::move(path)) {}
  void Read();  // REQUIRES mutex_ held
  void ReadLine(const std::string& line);
  absl::Status Append(const std::string& text);
  absl::Status Reopen();  // REQUIRES mutex_ held

  const std::string path_;
  Entries entries_;
  int64_t damaged_lines_ = 0;
  std::mutex mutex_;
  int fd_ = -1;        // guarded by mutex_
  bool torn_ = false;  // guarded by mutex_: the file may end within a line, which the next one must not continue
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_LEDGER_H_
