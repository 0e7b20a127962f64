#include "kernels/device/cuda_launch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"

namespace preheat::cuda {
namespace {

constexpr unsigned kSharedWithoutAsking = 48 << 10;

}  // namespace

PackedLaunch::PackedLaunch(const Launch& launch) {
  const size_t count = launch.num_buffers + launch.num_scalars + 3;
  if (count > kOnStack) many_.resize(count);
  int64_t* const arguments = count > kOnStack ? many_.data() : few_;
  int64_t* next = arguments;
  for (size_t i = 0; i < launch.num_buffers; ++i) *next++ = reinterpret_cast<int64_t>(launch.buffers[i]);
  next = std::copy_n(launch.scalars, launch.num_scalars, next);
  *next++ = reinterpret_cast<int64_t>(launch.error);
  *next++ = reinterpret_cast<int64_t>(launch.scratch);
  *next++ = launch.extent;
  bytes_ = count * sizeof(int64_t);
  extra_[0] = reinterpret_cast<void*>(1);  // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END
  extra_[1] = arguments;
  extra_[2] = reinterpret_cast<void*>(2);
  extra_[3] = &bytes_;
  extra_[4] = nullptr;
  node_.function = launch.function;
  std::copy_n(launch.grid, 3, node_.grid);
  std::copy_n(launch.block, 3, node_.block);
  node_.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  node_.extra = extra_;
}

absl::Status PackedLaunch::AskForShared(const Driver& driver) const {
  if (node_.shared_bytes <= kSharedWithoutAsking) return absl::OkStatus();
  return Check(driver,
               driver.FuncSetAttribute(node_.function, kMaxDynamicSharedBytes, static_cast<int>(node_.shared_bytes)),
               "asking for shared memory");
}

absl::Status PackedLaunch::Enqueue(const Driver& driver, StreamHandle stream) {
  RETURN_IF_ERROR(AskForShared(driver));
  const unsigned *grid = node_.grid, *block = node_.block;
  const Result result = driver.LaunchKernel(node_.function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                            node_.shared_bytes, stream, nullptr, extra_);
  if (result == 0) return absl::OkStatus();
  return Check(driver, result,
               absl::StrCat("launching ", grid[0], " blocks of ", block[0], " by ", block[1], " threads with ",
                            node_.shared_bytes, " bytes of shared memory"));
}

absl::StatusOr<const KernelNode*> PackedLaunch::Node(const Driver& driver) {
  RETURN_IF_ERROR(AskForShared(driver));
  return &node_;
}

}  // namespace preheat::cuda
