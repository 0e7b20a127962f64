#include "autotune/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace preheat::autotune {
namespace {

constexpr std::chrono::milliseconds kPoll{10};

int OpenLock(const std::string& device) {
  const char* named = std::getenv("TMPDIR");
  const std::string folder = named != nullptr && *named != 0 ? named : "/tmp";
  const std::string path = absl::StrCat(folder, "/preheat-", getuid(), "-", device, ".lock");
  return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

int Flock(int file, int operation) {
  int failed = flock(file, operation);
  while (failed != 0 && errno == EINTR) failed = flock(file, operation);
  return failed;
}

}  // namespace

DeviceLock::DeviceLock(const std::string& device, Kind kind, const std::atomic<bool>* cancelled)
    : work_(OpenLock(absl::StrCat(device, "-work"))) {
  held_ = true;
  if (work_ < 0) return;
  if (kind == Kind::kShared) {
    Flock(work_, LOCK_SH);  // who looks for workers holds it for no longer than that takes
    futimens(work_, nullptr);
    return;
  }
  measure_ = OpenLock(device);
  while ((measure_ >= 0 && Flock(measure_, LOCK_EX | LOCK_NB) != 0) || SomebodyWorks()) {
    held_ = cancelled == nullptr || !*cancelled;
    if (!held_) return;
    std::this_thread::sleep_for(kPoll);
  }
  begun_ = LastWork();
}

DeviceLock::~DeviceLock() {
  for (int file : {work_, measure_}) {
    if (file >= 0) close(file);
  }
}

bool DeviceLock::Disturbed() const { return work_ >= 0 && (LastWork() != begun_ || SomebodyWorks()); }

// Nanoseconds since 1970.
int64_t DeviceLock::LastWork() const {
  struct stat about = {};
  fstat(work_, &about);
  return int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec;
}

bool DeviceLock::SomebodyWorks() const {
  if (Flock(work_, LOCK_EX | LOCK_NB) != 0) return true;
  Flock(work_, LOCK_UN);
  return false;
}

}  // namespace preheat::autotune
