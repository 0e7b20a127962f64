#ifndef PREHEAT_AUTOTUNE_ROUNDS_H_
#define PREHEAT_AUTOTUNE_ROUNDS_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autotune/loaded_artifact.h"
#include "autotune/quiet_machine.h"

namespace preheat::autotune {

// Times of artifacts that were run in turn: of one run, the mean of those that a round makes.
struct Rounds {
  std::vector<std::vector<std::vector<double>>> steps;  // [artifact][round][step], seconds; when steps are timed
  std::vector<std::vector<double>> totals;              // [artifact][round]
  bool busy = false;                                    // others used the machine meanwhile
  int count() const { return totals.empty() ? 0 : static_cast<int>(totals[0].size()); }
};

// When measuring, to ask whether somebody else has come to the device: nothing of ours has run for a moment; everything
// has run once, so no more memory will be taken; or between rounds.
enum class Moment { kAtRest, kAllLoaded, kBetween };
using WatchFn = std::function<absl::Status(Moment)>;

struct RoundOptions {
  bool time_steps = true;
  std::chrono::milliseconds budget = std::chrono::seconds(10);
  int least = 7, most = 41;  // rounds; where they take more than three times the budget, fewer
  // Runs in a row of an artifact in a round, as many as a quarter of the budget pays for: a step of a microsecond is
  // told from one of 1.1 by twenty runs, not by one, which is a few ticks of the clock and whatever the core did
  // before.
  int most_runs = 32;
  std::string device = "cpu";
  const std::atomic<bool>* cancelled = nullptr;
  // Of a CPU: rounds during which others work are made again when they no longer do, as long as it lasts. Null: they
  // count.
  Patience* patience = nullptr;
  WatchFn watch;  // of a GPU; an error ends it all with it. May be null
};

// Runs each artifact a round, some times in a row, in a new random order each time, with the device held for the round.
// One round before them is not counted, nor is the first of several runs in a row, which finds the caches as another
// artifact left them. So tuning stands still while requests or other processes have the machine, and neither has worse
// of the other than a round.
absl::StatusOr<Rounds> RunRounds(const std::vector<LoadedArtifact*>& artifacts, const RoundOptions& options);

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_ROUNDS_H_
