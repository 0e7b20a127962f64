#ifndef PREHEAT_AUTOTUNE_DEVICE_LOCK_H_
#define PREHEAT_AUTOTUNE_DEVICE_LOCK_H_

#include <atomic>
#include <chrono>
#include <string>

namespace preheat::autotune {

// Workers of one machine that measure must be alone: those that compile hold their device shared, one that times holds
// it exclusively for moments. A file lock, so that a process that ends lets go.
class DeviceLock {
 public:
  enum class Kind { kShared, kExclusive };

  // Waits for the lock of `device` ("cpu"); gives up when `cancelled` (may be null) is set. Where no lock file can be
  // made it goes on without.
  DeviceLock(const std::string& device, Kind kind, const std::atomic<bool>* cancelled);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;

  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

// The share of the machine's processors, from 0 to 1, that processes other than this one and its children have used
// since the last call; 0 where the kernel does not tell.
class BusyMeter {
 public:
  BusyMeter();
  double Share();

 private:
  double time_ = 0, used_ = 0, own_ = 0;
};

// Waits until others use less than a tenth of the machine for a quarter of a second, at most `patience`. False: it is
// still busy, or cancelled.
bool WaitForQuiet(std::chrono::milliseconds patience, const std::atomic<bool>* cancelled);

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_DEVICE_LOCK_H_
