#include "server/worker/worker_gpu.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/cuda_device.h"

namespace preheat::worker {
namespace {

constexpr int64_t kUnusedBytes = int64_t{600} << 20;  // a GPU that nobody uses has some of its own in use
constexpr int64_t kOwnBytes = int64_t{8} << 30;       // what our context, libraries and last artifact may hold
constexpr int kUnusedPercent = 10;
constexpr int64_t kNewcomersBytes = int64_t{200} << 20;  // less than a context takes
constexpr std::chrono::milliseconds kPoll{500};
constexpr std::chrono::seconds kRest{4};

struct State {
  std::optional<Gpu> gpu;
  std::unique_ptr<Device> device;  // opened by the first artifact
  std::atomic<bool> holds{false};
};
State& TheState() {
  static State& state = *new State;  // the driver may be gone before statics are
  return state;
}

// The entry of CUDA_VISIBLE_DEVICES, or all GPUs, that `number` counts to; empty: there are not so many.
std::string Visible(int number) {
  const char* all = std::getenv("CUDA_VISIBLE_DEVICES");
  if (all == nullptr) return absl::StrCat(number);
  const std::vector<std::string> names = absl::StrSplit(all, ',', absl::SkipWhitespace());
  return number < static_cast<int>(names.size()) ? names[static_cast<size_t>(number)] : "";
}

absl::Status Busy(const Gpu& gpu, const GpuUse& use) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.kind = "gpu_busy",
                    .message = absl::StrCat(gpu.name, " is in use: ", use.memory_bytes >> 20, " MiB, ", use.percent,
                                            "% of its time"),
                    .where = gpu.uuid,
                    .fix = "it is tried again when the GPU is free; or set tune_when_busy"});
}

// Looks at the worker's GPU now and then.
template <typename IsFree>
absl::Status WaitUntil(std::chrono::milliseconds patience, const std::atomic<bool>* cancelled, IsFree is_free) {
  const Gpu& gpu = *WorkersGpu();
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (true) {
    ASSIGN_OR_RETURN(const GpuUse use, UseOf(gpu));
    if (is_free(use)) return absl::OkStatus();
    if (cancelled != nullptr && *cancelled) return absl::CancelledError("cancelled");
    if (std::chrono::steady_clock::now() >= give_up) return Busy(gpu, use);
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

bool SelectDevice(absl::string_view device) {
  int number = 0;
  if (!absl::StartsWith(device, "cuda:")) return true;
  if (!absl::SimpleAtoi(device.substr(5), &number)) return false;
  const std::string visible = Visible(number);
  if (visible.empty()) return false;
  setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
  const std::vector<Gpu> gpus = Gpus();
  if (gpus.empty()) return false;
  TheState().gpu = gpus.front();
  return true;
}

const Gpu* WorkersGpu() {
  const std::optional<Gpu>& gpu = TheState().gpu;
  return gpu ? &*gpu : nullptr;
}

absl::Status CheckDevice(const std::string& target) {
  const Gpu* gpu = WorkersGpu();
  if (!absl::StartsWith(target, "cuda:") || (gpu != nullptr && gpu->target == target)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "no_such_device",
                    .message = absl::StrCat("no worker has a device of ", target),
                    .where = target,
                    .fix = "let a preheatd on such a machine do it"});
}

absl::StatusOr<Device*> DeviceFor(const std::string& target) {
  if (!absl::StartsWith(target, "cuda:")) return static_cast<Device*>(nullptr);
  RETURN_IF_ERROR(CheckDevice(target));
  State& state = TheState();
  if (state.device == nullptr) {
    ASSIGN_OR_RETURN(state.device, NewCudaDevice(target));
    state.holds = true;
  }
  return state.device.get();
}

absl::Status WaitForGpu(std::chrono::milliseconds patience, const std::atomic<bool>* cancelled) {
  if (WorkersGpu() == nullptr) return absl::OkStatus();
  const int64_t most = kUnusedBytes + (HoldsGpu() ? kOwnBytes : 0);
  return WaitUntil(patience, cancelled, [&](const GpuUse& use) {
    // The time may be our own last artifact's.
    return use.memory_bytes <= most && (HoldsGpu() || use.percent <= kUnusedPercent);
  });
}

absl::Status GpuWatch::Look(autotune::Moment moment) {
  if (moment == autotune::Moment::kAtRest) {  // what ran last, which may be ours, is soon over by the driver's account
    return WaitUntil(kRest, cancelled_, [](const GpuUse& use) { return use.percent <= kUnusedPercent; });
  }
  ASSIGN_OR_RETURN(const GpuUse use, UseOf(*WorkersGpu()));
  if (moment == autotune::Moment::kAllLoaded) loaded_bytes_ = use.memory_bytes;
  return use.memory_bytes > loaded_bytes_ + kNewcomersBytes ? Busy(*WorkersGpu(), use) : absl::OkStatus();
}

bool HoldsGpu() { return TheState().holds; }

bool GpuIsWell() {
  const State& state = TheState();
  return state.device == nullptr || state.device->Synchronize(nullptr).ok();
}

}  // namespace preheat::worker
