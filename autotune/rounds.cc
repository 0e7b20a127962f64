#include "autotune/rounds.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "autotune/device_lock.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kShort = std::chrono::milliseconds(5);  // to wait for a lock
constexpr double kFewOfRounds = 0.1;                   // medians bear that many disturbed ones
constexpr auto kWatchEvery = std::chrono::milliseconds(250);

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

// Whether rounds were worth making.
class Disturbance {
 public:
  explicit Disturbance(const RoundOptions& options) : on_cpu_(options.device == "cpu") {}

  // Of the rounds since it last knew: nothing when it is too early to tell.
  std::optional<bool> Check(const DeviceLock& lock) {
    if (!on_cpu_) return false;
    if (lock.Disturbed()) return true;
    if (!meter_.SaysMuch()) return std::nullopt;
    return meter_.Share() > kQuietShare;
  }
  // Forgets what has been since it last knew: nobody measured.
  void Restart() { meter_.Share(); }

 private:
  const bool on_cpu_;
  BusyMeter meter_;
};

class Measurement {
 public:
  Measurement(const std::vector<LoadedArtifact*>& artifacts, const RoundOptions& options)
      : artifacts_(artifacts), options_(options), disturbance_(options) {
    order_.resize(artifacts.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    rounds_.steps.resize(artifacts.size());
    rounds_.totals.resize(artifacts.size());
    for (LoadedArtifact* artifact : artifacts) artifact->Profile(options.time_steps);
  }

  absl::StatusOr<Rounds> Run() {
    Clock::duration spent{0};
    RETURN_IF_ERROR(Watch(Moment::kAtRest));
    while (spent.count() == 0) {
      ASSIGN_OR_RETURN(spent, Round(/*counts=*/false));
    }
    RETURN_IF_ERROR(Watch(Moment::kAllLoaded));
    runs_ = RunsFor(spent, options_);
    while (rounds_.count() < options_.most && (rounds_.count() < options_.least || spent <= options_.budget) &&
           spent <= 3 * options_.budget) {
      ASSIGN_OR_RETURN(const Clock::duration took, Round(/*counts=*/true));
      spent += took;
      if (Clock::now() - watched_ > kWatchEvery) RETURN_IF_ERROR(Watch(Moment::kBetween));
    }
    rounds_.busy = disturbed_ > kFewOfRounds * (disturbed_ + undisturbed_);
    return std::move(rounds_);
  }

 private:
  absl::Status Watch(Moment moment) {
    watched_ = Clock::now();
    return options_.watch ? options_.watch(moment) : absl::OkStatus();
  }

  // How long it took, without waiting; nothing when it is to be made again.
  absl::StatusOr<Clock::duration> Round(bool counts) {
    const auto asked = Clock::now();
    std::optional<DeviceLock> lock(std::in_place, options_.device, DeviceLock::Kind::kExclusive, options_.cancelled);
    const auto begin = Clock::now();
    if (begin - asked > kShort) disturbance_.Restart();
    RETURN_IF_ERROR(RunAll(counts));
    const auto took = Clock::now() - begin;
    const bool again = IsDisturbed(*lock);
    lock.reset();
    if (!again) return took;
    options_.patience->WaitForQuiet();
    disturbance_.Restart();
    return Clock::duration(0);
  }

  absl::Status RunAll(bool counts) {
    std::shuffle(order_.begin(), order_.end(), random_);
    for (size_t a : order_) {
      double total = 0;
      std::vector<double> steps;
      RETURN_IF_ERROR(RunSome(*artifacts_[a], runs_, options_, total, steps));
      if (!counts) continue;
      rounds_.totals[a].push_back(total);
      if (options_.time_steps) rounds_.steps[a].push_back(std::move(steps));
    }
    return absl::OkStatus();
  }

  // Drops the rounds that others have disturbed. True: to be made again, when the machine is quiet.
  bool IsDisturbed(const DeviceLock& lock) {
    const std::optional<bool> disturbed = disturbance_.Check(lock);
    if (!disturbed) return false;
    const bool again = *disturbed && options_.patience != nullptr && !options_.patience->over();
    if (again) {
      for (auto& totals : rounds_.totals) totals.resize(good_);
      for (auto& steps : rounds_.steps) steps.resize(options_.time_steps ? good_ : 0);
    }
    if (!again) ++(*disturbed ? disturbed_ : undisturbed_);
    good_ = static_cast<size_t>(rounds_.count());
    return again;
  }

  const std::vector<LoadedArtifact*>& artifacts_;
  const RoundOptions& options_;
  Disturbance disturbance_;
  std::vector<size_t> order_;
  std::mt19937 random_{1};
  int runs_ = 1;
  Clock::time_point watched_;
  int disturbed_ = 0, undisturbed_ = 0;  // of those that stand, as often as it was known
  size_t good_ = 0;                      // rounds known to be worth counting
  Rounds rounds_;
};

}  // namespace

absl::StatusOr<Rounds> RunRounds(const std::vector<LoadedArtifact*>& artifacts, const RoundOptions& options) {
  return Measurement(artifacts, options).Run();
}

}  // namespace preheat::autotune
