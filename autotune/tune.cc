#include "autotune/tune.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autotune/device_lock.h"
#include "autotune/loaded_artifact.h"
#include "autotune/rounds.h"
#include "autotune/search.h"
#include "compiler/draft.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {
namespace {

constexpr double kWorthwhile = 0.99;  // a candidate whose interval ends above is not told from the default
constexpr double kBusyShare = 0.1;    // of the machine, used by others while it is measured
constexpr int kConfirmRounds = 31;

using Candidates = std::map<std::string, std::vector<codegen::Schedule>>;
using Chosen = std::map<std::string, codegen::Schedule>;  // sites without are made by default

// Microseconds of a site, round by round: all its steps.
std::vector<double> TimesOf(const std::vector<size_t>& steps, const std::vector<std::vector<double>>& rounds) {
  std::vector<double> times;
  for (const std::vector<double>& round : rounds) {
    double sum = 0;
    for (size_t step : steps) sum += step < round.size() ? round[step] * 1e6 : 0;
    times.push_back(sum);
  }
  return times;
}

class Tuner {
 public:
  Tuner(const Canonical& canonical, const TuneOptions& options) : canonical_(canonical), options_(options) {}

  absl::StatusOr<TuneResult> Run() {
    Tell(0, "waiting for a quiet machine");
    if (options_.patience.count() > 0) WaitForQuiet(options_.patience, options_.compile.cancelled);
    ASSIGN_OR_RETURN(Draft base, MakeDraft(canonical_, Options({})));
    for (const Site& site : base.built.sites) {
      steps_[site.name].push_back(site.step);
      keys_[site.name] = RecordKey(site);
    }
    ReadRecords();
    ASSIGN_OR_RETURN(Candidates candidates, FindCandidates(canonical_, Options({}), base, Known()));
    ASSIGN_OR_RETURN(default_, Make({}));
    BusyMeter meter;
    RETURN_IF_ERROR(MeasureCandidates(candidates));
    RETURN_IF_ERROR(Confirm());
    result_.tuning.machine_was_busy = meter.Share() > kBusyShare;
    if (!result_.tuning.machine_was_busy) WriteRecords();
    for (auto& [name, site] : sites_) result_.tuning.sites.push_back(std::move(site));
    return std::move(result_);
  }

 private:
  // An artifact under some schedules, loaded.
  struct Made {
    Artifact artifact;
    std::unique_ptr<LoadedArtifact> loaded;
  };

  CompileOptions Options(Chosen chosen) const {
    CompileOptions options = options_.compile;
    options.progress = nullptr;
    options.schedules = {};
    options.schedules.at = std::move(chosen);
    return options;
  }

  absl::StatusOr<Made> Make(const Chosen& chosen) {
    Made made;
    ASSIGN_OR_RETURN(made.artifact, Compile(canonical_, Options(chosen)));
    ASSIGN_OR_RETURN(made.loaded, LoadedArtifact::Load(made.artifact.plan, made.artifact.code, options_.inputs,
                                                       options_.extern_handler));
    return made;
  }

  void Tell(double fraction, const std::string& detail) const {
    if (options_.compile.progress) options_.compile.progress("tune", fraction, detail);
  }

  // --- Records ---

  std::string RecordKey(const Site& site) const {
    std::string text = absl::StrCat("tuning 1\n", options_.machine, "\n", options_.toolchain, "\n",
                                    options_.compile.target, "\n", site.identity);
    for (const auto& [name, value] : options_.symbols) absl::StrAppend(&text, "\n", name, "=", value);
    return Digest(text);
  }

  void ReadRecords() {
    if (!options_.lookup_records) return;
    std::vector<std::string> keys;
    for (const auto& [name, key] : keys_) keys.push_back(key);
    std::map<std::string, std::string> records = options_.lookup_records(keys);
    for (const auto& [name, key] : keys_) {
      auto found = records.find(key);
      if (found == records.end()) continue;
      absl::StatusOr<SiteResult> site = ReadRecord(found->second);
      if (!site.ok()) continue;  // of another version: measured again
      site->name = name;
      sites_[name] = *std::move(site);
    }
  }

  std::set<std::string> Known() const {
    std::set<std::string> names;
    for (const auto& [name, site] : sites_) names.insert(name);
    return names;
  }

  void WriteRecords() {
    for (const auto& [name, site] : proved_) {
      if (!site.from_record && site.candidates > 1) result_.records[keys_[name]] = WriteRecord(site);
    }
  }

  // --- Measuring ---

  absl::Status MeasureCandidates(const Candidates& candidates) {
    size_t most = 0;
    for (const auto& [name, list] : candidates) most = std::max(most, list.size());
    std::vector<Made> variants;
    for (size_t k = 0; k < most; ++k) {
      Chosen chosen;
      for (const auto& [name, list] : candidates) {
        if (k < list.size()) chosen[name] = list[k];
      }
      Tell(0.5 * static_cast<double>(k) / static_cast<double>(most), absl::StrCat("variant ", k + 1, " of ", most));
      ASSIGN_OR_RETURN(Made made, Make(chosen));
      variants.push_back(std::move(made));
    }
    std::vector<LoadedArtifact*> in_turn = {default_->loaded.get()};
    for (const Made& made : variants) in_turn.push_back(made.loaded.get());
    Tell(0.5, "measuring");
    if (most == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(Rounds rounds, RunRounds(in_turn, TimingOptions(true, 31)));
    for (const auto& [name, list] : candidates) sites_[name] = Judge(name, list, rounds);
    return absl::OkStatus();
  }

  RoundOptions TimingOptions(bool time_steps, int most) const {
    RoundOptions options;
    options.time_steps = time_steps;
    options.budget = options_.budget;
    options.most = most;
    options.cancelled = options_.compile.cancelled;
    return options;
  }

  SiteResult Judge(const std::string& name, const std::vector<codegen::Schedule>& list, const Rounds& rounds) {
    SiteResult site;
    site.name = name;
    site.candidates = static_cast<int>(list.size()) + 1;
    const std::vector<double> base = TimesOf(steps_[name], rounds.steps[0]);
    site.default_us = Median(base);
    std::vector<std::vector<double>> all = {base};
    for (size_t k = 0; k < list.size(); ++k) {
      all.push_back(TimesOf(steps_[name], rounds.steps[k + 1]));
      const Ratio ratio = MedianRatio(all.back(), base);
      if (ratio.high >= kWorthwhile || ratio.value >= site.ratio.value) continue;
      site.ratio = ratio;
      site.schedule = codegen::ScheduleText(list[k]);
    }
    site.best_us = site.default_us * FastestRatio(all);
    return site;
  }

  // --- Those chosen against the default, anew ---

  Chosen ChosenNow() const {
    Chosen chosen;
    for (const auto& [name, site] : sites_) {
      auto schedule = codegen::ParseSchedule(site.schedule);
      if (schedule.ok() && !schedule->empty()) chosen[name] = *std::move(schedule);
    }
    return chosen;
  }

  absl::Status Confirm() {
    for (int attempt = 0; attempt < 3; ++attempt) {
      Chosen chosen = ChosenNow();
      if (chosen.empty()) break;
      Tell(0.7 + 0.1 * attempt, "confirming");
      ASSIGN_OR_RETURN(Made tuned, Make(chosen));
      ASSIGN_OR_RETURN(bool all, ConfirmSites(tuned, chosen));
      if (!all) continue;
      ASSIGN_OR_RETURN(bool faster, ConfirmProgram(tuned));
      if (!faster) break;
      proved_ = sites_;
      result_.artifact = std::move(tuned.artifact);
      return absl::OkStatus();
    }
    proved_ = sites_;  // a site's evidence stands, whatever the program as a whole shows
    for (auto& [name, site] : sites_) BackToDefault(site);
    result_.tuning.ratio = {};
    result_.artifact = std::move(default_->artifact);
    return absl::OkStatus();
  }

  static void BackToDefault(SiteResult& site) {
    site.schedule = "default";
    site.ratio = {};
  }

  // False when some site went back to the default.
  absl::StatusOr<bool> ConfirmSites(const Made& tuned, const Chosen& chosen) {
    ASSIGN_OR_RETURN(Rounds rounds, RunRounds({default_->loaded.get(), tuned.loaded.get()},
                                              TimingOptions(/*time_steps=*/true, kConfirmRounds)));
    bool all = true;
    for (const auto& [name, schedule] : chosen) {
      SiteResult& site = sites_[name];
      site.ratio = MedianRatio(TimesOf(steps_[name], rounds.steps[1]), TimesOf(steps_[name], rounds.steps[0]));
      if (site.ratio.high < 1) continue;
      BackToDefault(site);
      all = false;
    }
    return all;
  }

  absl::StatusOr<bool> ConfirmProgram(const Made& tuned) {
    ASSIGN_OR_RETURN(Rounds rounds, RunRounds({default_->loaded.get(), tuned.loaded.get()},
                                              TimingOptions(/*time_steps=*/false, 2 * kConfirmRounds)));
    result_.tuning.ratio = MedianRatio(rounds.totals[1], rounds.totals[0]);
    result_.tuning.runs = rounds.count();
    return result_.tuning.ratio.high < 1;
  }

  const Canonical& canonical_;
  const TuneOptions& options_;
  std::map<std::string, std::vector<size_t>> steps_;  // by site, of the plan
  std::map<std::string, std::string> keys_;           // of records, by site
  std::map<std::string, SiteResult> sites_, proved_;
  std::optional<Made> default_;
  TuneResult result_;
};

}  // namespace

absl::StatusOr<TuneResult> Tune(const Canonical& canonical, const TuneOptions& options) {
  return Tuner(canonical, options).Run();
}

}  // namespace preheat::autotune
