#include "autotune/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace preheat::autotune {
namespace {

constexpr std::chrono::milliseconds kPoll{10}, kQuietWindow{250};
constexpr double kQuietShare = 0.1;

std::string LockFile(const std::string& device) {
  const char* folder = std::getenv("TMPDIR");
  return absl::StrCat(folder != nullptr && *folder != 0 ? folder : "/tmp", "/preheat-", getuid(), "-", device, ".lock");
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
    : file_(open(LockFile(device).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (file_ < 0) {
    held_ = true;
    return;
  }
  const int operation = (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  while (flock(file_, operation) != 0) {
    if (cancelled != nullptr && *cancelled) return;
    std::this_thread::sleep_for(kPoll);
  }
  held_ = true;
}

DeviceLock::~DeviceLock() {
  if (file_ >= 0) close(file_);
}

BusyMeter::BusyMeter() { Share(); }

double BusyMeter::Share() {
  const double time = Now(), used = MachineSeconds(), own = OwnSeconds();
  const double others = (used - used_) - (own - own_);
  const double could = (time - time_) * std::max(1u, std::thread::hardware_concurrency());
  time_ = time, used_ = used, own_ = own;
  return could > 0 ? std::max(0.0, others / could) : 0;
}

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

}  // namespace preheat::autotune
