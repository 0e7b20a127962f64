#include "kernels/device/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "kernels/device/code_file.h"
#include "kernels/device/kernel_args.h"
#include "kernels/device/parallel_for.h"

namespace preheat {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

struct CpuEvent : Event {
  std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now();
};

void CallRange(const void* context, int64_t begin, int64_t end, int thread) {
  const Launch& launch = *static_cast<const Launch*>(context);
  const KernelArgs args = {launch.buffers, launch.scalars, launch.error,
                           launch.scratch + thread * launch.scratch_bytes};
  reinterpret_cast<KernelFunction>(launch.function)(&args, begin, end);
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(std::string cache_dir) : cache_dir_(std::move(cache_dir)) {}

  absl::string_view name() const override { return "cpu"; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    if (void* memory = AllocateAligned(bytes)) return memory;
    return MakeError(absl::StatusCode::kResourceExhausted, {.kind = "out_of_memory",
                                                            .message = absl::StrCat("no memory for ", bytes, " bytes"),
                                                            .where = "",
                                                            .fix = "run smaller batches, or fewer runs at once"});
  }
  void Free(void* memory) override { FreeAligned(memory); }

  absl::StatusOr<std::shared_ptr<const LoadedCode>> Load(const CodeImage& image) override {
    return LoadSharedObject(image, cache_dir_);
  }

  absl::Status Launch(const struct Launch& launch, Stream) override {
    ParallelRanges(ThreadsFor(launch.extent, launch.grain), launch.extent, &CallRange, &launch);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Event>> Record(Stream) override { return std::make_unique<CpuEvent>(); }
  absl::StatusOr<double> SecondsBetween(const Event& first, const Event& second) override {
    const auto elapsed = static_cast<const CpuEvent&>(second).when - static_cast<const CpuEvent&>(first).when;
    return std::chrono::duration<double>(elapsed).count();
  }
  absl::Status Synchronize(Stream) override { return absl::OkStatus(); }

 private:
  const std::string cache_dir_;
};

}  // namespace

std::unique_ptr<Device> NewCpuDevice(std::string cache_dir) {
  return std::make_unique<CpuDevice>(std::move(cache_dir));
}

void* AllocateAligned(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX - kHugePage) return nullptr;
  const int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : 64;
  const int64_t rounded = (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
  if (memory != nullptr && alignment == kHugePage) madvise(memory, static_cast<size_t>(rounded), MADV_HUGEPAGE);
  return memory;
}

void FreeAligned(void* memory) { std::free(memory); }

}  // namespace preheat
