#include "autotune/quiet_machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace preheat::autotune {
namespace {

constexpr std::chrono::milliseconds kQuietWindow{250};

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
