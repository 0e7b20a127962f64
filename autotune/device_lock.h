#ifndef PREHEAT_AUTOTUNE_DEVICE_LOCK_H_
#define PREHEAT_AUTOTUNE_DEVICE_LOCK_H_

#include <atomic>
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

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_DEVICE_LOCK_H_
