#include "autotune/rounds.h"

#include <algorithm>
#include <numeric>

#include "autotune/device_lock.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status Cancelled(const RoundOptions& options) {
  if (options.cancelled != nullptr && *options.cancelled) return absl::CancelledError("tuning was interrupted");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Rounds> RunRounds(const std::vector<LoadedArtifact*>& artifacts, const RoundOptions& options) {
  Rounds rounds;
  rounds.steps.resize(artifacts.size());
  rounds.totals.resize(artifacts.size());
  std::vector<size_t> order(artifacts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);
  for (LoadedArtifact* artifact : artifacts) artifact->Profile(options.time_steps);
  const auto start = Clock::now();
  for (int round = -1; round < options.most; ++round) {
    const auto spent = Clock::now() - start;
    if ((round >= options.least && spent > options.budget) || spent > 3 * options.budget) break;
    DeviceLock lock(options.device, DeviceLock::Kind::kExclusive, options.cancelled);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t a : order) {
      RETURN_IF_ERROR(Cancelled(options));
      const auto begin = Clock::now();
      RETURN_IF_ERROR(artifacts[a]->Run());
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (round < 0) continue;
      rounds.totals[a].push_back(seconds);
      if (options.time_steps) rounds.steps[a].push_back(artifacts[a]->StepSeconds());
    }
  }
  return rounds;
}

}  // namespace preheat::autotune
