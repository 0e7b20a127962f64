#include "kernels/device/cuda_hold.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "compiler/support/status_macros.h"

namespace preheat::cuda {
namespace {

// A driver that wants something of the host meanwhile, a module's first load, gets it after this.
constexpr std::chrono::milliseconds kLongest{100};

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;  // guarded by mutex
};

// On a thread of the driver's.
void WaitAtGate(void* data) {
  const std::unique_ptr<std::shared_ptr<Gate>> gate(static_cast<std::shared_ptr<Gate>*>(data));
  std::unique_lock<std::mutex> lock((*gate)->mutex);
  (*gate)->changed.wait_for(lock, kLongest, [&] { return (*gate)->open; });
}

class HostHold : public Hold {
 public:
  explicit HostHold(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  ~HostHold() override {
    const std::lock_guard<std::mutex> lock(gate_->mutex);
    gate_->open = true;
    gate_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Hold>> HoldBack(const Driver& driver, StreamHandle stream) {
  auto gate = std::make_shared<Gate>();
  auto reference = std::make_unique<std::shared_ptr<Gate>>(gate);
  RETURN_IF_ERROR(Check(driver, driver.LaunchHostFunc(stream, &WaitAtGate, reference.get()), "holding a stream"));
  reference.release();  // the function's now
  return std::unique_ptr<Hold>(std::make_unique<HostHold>(std::move(gate)));
}

}  // namespace preheat::cuda
