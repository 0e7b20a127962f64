#ifndef PREHEAT_AUTOTUNE_TUNING_H_
#define PREHEAT_AUTOTUNE_TUNING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autotune/statistics.h"

namespace preheat::autotune {

// What is known of a site: a kernel or a library call, wherever the program has it. Ratios are times under the schedule
// over times under the default.
struct SiteResult {
  std::string name;
  std::string schedule = "default";  // the one chosen
  int candidates = 1;                // measured, the default among them
  double default_us = 0;             // medians, in one run of the program
  double best_us = 0;                // of the fastest candidate, chosen or not: by FastestRatio
  Ratio ratio;                       // of the one chosen
  bool from_record = false;          // measured before, for another program or an earlier generation
};

struct Tuning {
  Ratio ratio;   // of the whole program, paired runs
  int runs = 0;  // of each of the two
  bool machine_was_busy = false;
  std::vector<SiteResult> sites;
};

// A record as the store keeps it: lines of "name value". Read forgives fields that it does not know: INVALID_ARGUMENT
// "bad_record" for what is no record, or has a schedule that this version cannot make.
std::string WriteRecord(const SiteResult& result);
absl::StatusOr<SiteResult> ReadRecord(absl::string_view text);

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_TUNING_H_
