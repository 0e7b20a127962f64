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

// Runs in a row, after a first round that took so long.
int RunsFor(Clock::duration one_each, const RoundOptions& options) {
  constexpr auto kHeld = std::chrono::milliseconds(250);  // the device, at a stretch
  const auto round = std::min<Clock::duration>(kHeld, options.budget / 4 / std::max(1, options.most));
  const auto runs = round / std::max<Clock::duration>(Clock::duration(1), one_each);
  return static_cast<int>(std::clamp<int64_t>(runs, 1, options.most_runs));
}

void AddTo(std::vector<double>& sum, const std::vector<double>& more, double share) {
  sum.resize(std::max(sum.size(), more.size()));
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i] * share;
}

// `runs` runs that count, after one that does not if they are several.
absl::Status RunSome(LoadedArtifact& artifact, int runs, const RoundOptions& options, double& total,
                     std::vector<double>& steps) {
  total = 0;
  for (int run = runs > 1 ? -1 : 0; run < runs; ++run) {
    RETURN_IF_ERROR(Cancelled(options));
    const auto begin = Clock::now();
    RETURN_IF_ERROR(artifact.Run());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (run < 0) continue;
    total += seconds / runs;
    if (options.time_steps) AddTo(steps, artifact.StepSeconds(), 1.0 / runs);
  }
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
  int runs = 1;
  for (int round = -1; round < options.most; ++round) {
    const auto spent = Clock::now() - start;
    if (round == 0) runs = RunsFor(spent, options);
    if ((round >= options.least && spent > options.budget) || spent > 3 * options.budget) break;
    DeviceLock lock(options.device, DeviceLock::Kind::kExclusive, options.cancelled);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t a : order) {
      double total = 0;
      std::vector<double> steps;
      RETURN_IF_ERROR(RunSome(*artifacts[a], runs, options, total, steps));
      if (round < 0) continue;
      rounds.totals[a].push_back(total);
      if (options.time_steps) rounds.steps[a].push_back(std::move(steps));
    }
  }
  return rounds;
}

}  // namespace preheat::autotune
