#include "autotune/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace preheat::autotune {
namespace {

constexpr std::chrono::milliseconds kPoll{10}, kQuietWindow{250};

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

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double OwnSeconds() {
  double seconds = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    seconds += Seconds(use.ru_utime) + Seconds(use.ru_stime);
  }
  return seconds;
}

// What all processors have worked since the machine's start.
double MachineSeconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0;
  file >> word >> user >> nice >> system >> idle >> wait >> irq >> soft;
  return (user + nice + system + irq + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

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

BusyMeter::BusyMeter() { Share(); }

double BusyMeter::Share() {
  const double time = Now(), used = MachineSeconds(), own = OwnSeconds();
  const double others = (used - used_) - (own - own_);
  const double could = (time - time_) * std::max(1u, std::thread::hardware_concurrency());
  time_ = time, used_ = used, own_ = own;
  return could > 0 ? std::max(0.0, others / could) : 0;
}

bool BusyMeter::SaysMuch() const { return Now() - time_ > std::chrono::duration<double>(kQuietWindow).count(); }

bool WaitForQuiet(std::chrono::milliseconds patience, const std::atomic<bool>* cancelled) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  BusyMeter meter;
  while (true) {
    std::this_thread::sleep_for(kQuietWindow);
    if (cancelled != nullptr && *cancelled) return false;
    if (meter.Share() < kQuietShare) return true;
    if (std::chrono::steady_clock::now() >= give_up) return false;
  }
}

void Patience::WaitForQuiet() {
  const auto begin = std::chrono::steady_clock::now();
  if (!over()) autotune::WaitForQuiet(left_, cancelled_);
  left_ -= std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

}  // namespace preheat::autotune
