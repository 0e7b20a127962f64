#ifndef PREHEAT_AUTOTUNE_DEVICE_LOCK_H_
#define PREHEAT_AUTOTUNE_DEVICE_LOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace preheat::autotune {

// Workers of one machine that measure must be alone. One that works for a request holds its device shared and never
// waits for it: who measures finds out, and measures again. File locks, so that a process that ends lets go.
class DeviceLock {
 public:
  enum class Kind { kShared, kExclusive };

  // kShared does not wait. kExclusive waits until no other measures and nobody holds `device` ("cpu") shared; it gives
  // up when `cancelled` (may be null) is set. Where no lock files can be made it goes on without.
  DeviceLock(const std::string& device, Kind kind, const std::atomic<bool>* cancelled);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;

  bool held() const { return held_; }
  // Of an exclusive one: whether somebody has held the device shared meanwhile.
  bool Disturbed() const;

 private:
  int64_t LastWork() const;
  bool SomebodyWorks() const;

  int work_ = -1;     // the file that those who work hold shared; its time is when one of them last began
  int measure_ = -1;  // the file that one who measures holds
  int64_t begun_ = 0;
  bool held_ = false;
};

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

#endif  // PREHEAT_AUTOTUNE_DEVICE_LOCK_H_
