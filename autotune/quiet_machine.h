#ifndef PREHEAT_AUTOTUNE_QUIET_MACHINE_H_
#define PREHEAT_AUTOTUNE_QUIET_MACHINE_H_

#include <atomic>
#include <chrono>

namespace preheat::autotune {

// The share of the machine's processors, from 0 to 1, that processes other than this one and its children have used
// since the last call; 0 where the kernel does not tell.
class BusyMeter {
 public:
  BusyMeter();
  double Share();
  // Whether the last call was long enough ago: the kernel counts in hundredths of a second.
  bool SaysMuch() const;

 private:
  double time_ = 0, used_ = 0, own_ = 0;
};

// More of the machine in the hands of others, and measurements say little.
inline constexpr double kQuietShare = 0.1;

// Waits until others use less than that for a quarter of a second, at most `patience`. False: it is still busy, or
// cancelled.
bool WaitForQuiet(std::chrono::milliseconds patience, const std::atomic<bool>* cancelled);

// Patience that several waits for a quiet machine use up.
class Patience {
 public:
  Patience(std::chrono::milliseconds left, const std::atomic<bool>* cancelled) : left_(left), cancelled_(cancelled) {}
  bool over() const { return left_.count() <= 0; }
  void WaitForQuiet();

 private:
  std::chrono::milliseconds left_;
  const std::atomic<bool>* const cancelled_;
};

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_QUIET_MACHINE_H_
