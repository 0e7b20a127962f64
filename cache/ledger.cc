#include "cache/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

// "+ KEY GENERATION MANIFEST CHECK" and "- KEY CHECK"; the check is of all that stands before it.
std::string Checked(const std::string& text) { return absl::StrCat(text, " ", Digest(text).substr(0, 8), "\n"); }
std::string AddLine(const std::string& key, uint32_t generation, const std::string& manifest) {
  return Checked(absl::StrCat("+ ", key, " ", generation, " ", manifest));
}

absl::Status Failed(const std::string& path, const std::string& what) {
  return MakeError(absl::StatusCode::kUnavailable, {.kind = "store_failed",
                                                    .message = absl::StrCat(what, ": ", std::strerror(errno)),
                                                    .where = path,
                                                    .fix = "check free space and permissions of the data folder"});
}

absl::Status WriteAll(int fd, const std::string& text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Failed(path, "cannot write");
    at += static_cast<size_t>(wrote);
  }
  return fdatasync(fd) == 0 ? absl::OkStatus() : Failed(path, "cannot sync");
}

absl::Status SyncFolder(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(folder, "cannot open");
  int synced = fsync(fd);
  close(fd);
  return synced == 0 ? absl::OkStatus() : Failed(folder, "cannot sync");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path) {
  std::unique_ptr<Ledger> ledger(new Ledger(path));
  std::lock_guard lock(ledger->mutex_);
  ledger->Read();
  RETURN_IF_ERROR(ledger->Reopen());
  return ledger;
}

Ledger::~Ledger() {
  if (fd_ >= 0) close(fd_);
}

void Ledger::Read() {
  std::ifstream file(path_, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    ReadLine(line);
    torn_ = file.eof();  // no end of line
  }
}

void Ledger::ReadLine(const std::string& line) {
  size_t end = line.rfind(' ');
  std::string text = line.substr(0, end == std::string::npos ? 0 : end);
  std::vector<std::string> words = absl::StrSplit(text, ' ');
  uint32_t generation = 0;
  bool sound = end != std::string::npos && Checked(text) == line + "\n" && words.size() >= 2 && IsDigest(words[1]);
  if (sound && words[0] == "+" && words.size() == 4 && absl::SimpleAtoi(words[2], &generation)) {
    entries_[{words[1], generation}] = words[3];
  } else if (sound && words[0] == "-") {
    entries_.erase(entries_.lower_bound({words[1], 0}), entries_.upper_bound({words[1], UINT32_MAX}));
  } else if (!line.empty()) {
    ++damaged_lines_;
  }
}

absl::Status Ledger::Reopen() {
  if (fd_ >= 0) close(fd_);
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  return fd_ >= 0 ? absl::OkStatus() : Failed(path_, "cannot open");
}

absl::Status Ledger::Append(const std::string& text) {
  std::lock_guard lock(mutex_);
  absl::Status written = WriteAll(fd_, torn_ ? "\n" + text : text, path_);
  torn_ = !written.ok();
  return written;
}

absl::Status Ledger::Add(const std::string& key, uint32_t generation, const std::string& manifest_digest) {
  return Append(AddLine(key, generation, manifest_digest));
}

absl::Status Ledger::Remove(const std::string& key) { return Append(Checked("- " + key)); }

absl::Status Ledger::Replace(const Entries& entries) {
  std::string text;
  for (const auto& [at, manifest] : entries) text += AddLine(at.first, at.second, manifest);
  std::lock_guard lock(mutex_);
  std::string temporary = path_ + ".new";
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed(temporary, "cannot open");
  absl::Status written = WriteAll(fd, text, temporary);
  close(fd);
  RETURN_IF_ERROR(written);
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) return Failed(path_, "cannot replace");
  torn_ = false;
  RETURN_IF_ERROR(SyncFolder(path_));
  return Reopen();
}

}  // namespace preheat::cache
