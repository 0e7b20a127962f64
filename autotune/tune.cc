#include "autotune/tune.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autotune/kernel_cache.h"
#include "autotune/loaded_artifact.h"
#include "autotune/quiet_machine.h"
#include "autotune/rounds.h"
#include "autotune/search.h"
#include "compiler/codegen/target.h"
#include "compiler/compile_kernels.h"
#include "compiler/draft.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {
namespace {

constexpr double kWorthwhile = 0.99;  // a candidate whose interval ends above is not told from the default
constexpr int kRounds = 17;           // of a set
constexpr int kConfirmRounds = 31;

using Candidates = std::map<std::string, std::vector<codegen::Schedule>>;
using Chosen = std::map<std::string, codegen::Schedule>;  // sites without are made by default

// What the choices of a site took, the default's first, round by round; and what they ran.
struct Measured {
  Times times;
  std::vector<std::string> names;  // of the site's first step
};
using Sets = std::array<std::map<std::string, Measured>, 2>;  // by site

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

// For tensors, beside the inputs given.
int64_t MemoryLeft(const TuneOptions& options) {
  int64_t left = options.memory_bytes;
  for (const reference::HostTensor& input : options.inputs) left -= static_cast<int64_t>(input.bytes.size());
  return options.memory_bytes > 0 ? std::max<int64_t>(left, 1) : 0;
}

class Tuner {
 public:
  Tuner(const Canonical& canonical, const TuneOptions& options)
      : canonical_(canonical),
        options_(options),
        kernels_(options.compile.kernels),
        memory_(LoadedArtifact::NewCommon(MemoryLeft(options))),
        patience_(options.patience, options.compile.cancelled) {}

  absl::StatusOr<TuneResult> Run() {
    Tell(0, "waiting for a quiet machine");
    patience_.WaitForQuiet();
    ASSIGN_OR_RETURN(Draft base, MakeDraft(canonical_, Options({})));
    ASSIGN_OR_RETURN(default_, Make({}));
    RETURN_IF_ERROR(default_->loaded->Run());
    if (options_.gpu != nullptr) {
      for (const PlannedCall& call : base.built.planned) plans_[call.name] = default_->loaded->Algorithm(call.step);
    }
    for (const Site& site : base.built.sites) {
      steps_[site.name].push_back(site.step);
      keys_[site.name] = RecordKey(site);
    }
    ReadRecords();
    ASSIGN_OR_RETURN(Candidates candidates, FindCandidates(canonical_, Options({}), base, Known()));
    RETURN_IF_ERROR(MeasureCandidates(candidates));
    RETURN_IF_ERROR(Confirm());
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
    options.kernels = kernels_.AsStore();
    options.schedules = {};
    options.schedules.at = std::move(chosen);
    options.schedules.algorithms = algorithms_;
    options.schedules.algorithms.insert(plans_.begin(), plans_.end());
    return options;
  }

  absl::StatusOr<Made> Make(const Chosen& chosen) {
    Made made;
    ASSIGN_OR_RETURN(made.artifact, Compile(canonical_, Options(chosen)));
    ASSIGN_OR_RETURN(made.loaded, LoadedArtifact::Load(made.artifact.plan, made.artifact.code, options_.inputs,
                                                       options_.extern_handler, options_.gpu, memory_));
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
    // A proposal's number says something beside the library's version and its first one.
    if (options_.gpu != nullptr) absl::StrAppend(&text, "\n", default_->loaded->Algorithm(site.step));
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

  absl::Status MeasureCandidates(Candidates candidates) {
    if (options_.gpu != nullptr && MostOf(candidates) > 0) CompileAhead(candidates);
    while (MostOf(candidates) > 0) {
      const absl::StatusOr<Sets> sets = MeasureSets(candidates);
      if (sets.ok()) {
        for (const auto& [name, list] : candidates) sites_[name] = Judge(name, list, *sets);
        break;
      }
      ASSIGN_OR_RETURN(const bool dropped, DropBad(&candidates));
      if (!dropped) return sets.status();
    }
    return absl::OkStatus();
  }

  static size_t MostOf(const Candidates& candidates) {
    size_t most = 0;
    for (const auto& [name, list] : candidates) most = std::max(most, list.size());
    return most;
  }

  absl::StatusOr<Sets> MeasureSets(const Candidates& candidates) {
    Sets sets;
    for (size_t set = 0; set < sets.size(); ++set) {
      ASSIGN_OR_RETURN(sets[set], MeasureSet(candidates, MostOf(candidates) + 1, static_cast<uint32_t>(set)));
    }
    return sets;
  }

  // All candidates' kernels side by side: a program has one of each site, and those are few. What cannot be compiled
  // shows when a program wants it.
  void CompileAhead(const Candidates& candidates) {
    Tell(0, "compiling candidates");
    std::map<std::string, codegen::EmittedKernel> kernels;
    for (size_t p = 0; p <= MostOf(candidates); ++p) {
      absl::StatusOr<Draft> draft = MakeDraft(canonical_, Options(ChoicesOf(candidates, {}, p)));
      if (!draft.ok()) continue;
      for (const codegen::EmittedKernel& kernel : draft->built.sources) kernels[kernel.symbol] = kernel;
    }
    std::vector<codegen::EmittedKernel> sources;
    for (const auto& [symbol, kernel] : kernels) sources.push_back(kernel);
    const absl::StatusOr<CudaTarget> target = ParseCudaTarget(options_.compile.target);
    std::string notes;
    if (target.ok()) CompileCudaKernels(sources, *target, Options({}), &notes).IgnoreError();
  }

  absl::StatusOr<Rounds> Measure(const std::vector<LoadedArtifact*>& artifacts, const RoundOptions& options) {
    ASSIGN_OR_RETURN(Rounds rounds, RunRounds(artifacts, options));
    result_.tuning.machine_was_busy |= rounds.busy;
    return rounds;
  }

  // Compilers, too, stand still while others have the machine.
  void GiveWay() {
    if (meter_.SaysMuch() && meter_.Share() > kQuietShare) patience_.WaitForQuiet();
  }

  // A program that is about to be measured: one that cannot be made or run is remembered.
  absl::StatusOr<Made> MakeToMeasure(const Chosen& chosen) {
    if (options_.gpu == nullptr) GiveWay();
    absl::StatusOr<Made> made = Make(chosen);
    if (made.ok() && options_.gpu != nullptr) {
      if (absl::Status ran = made->loaded->Run(); !ran.ok()) made = std::move(ran);
    }
    if (!made.ok() && !absl::IsCancelled(made.status())) failed_ = chosen;
    return made;
  }

  // Of the program that failed, those choices that fail by themselves. False when there are none: it is not for them.
  absl::StatusOr<bool> DropBad(Candidates* candidates) {
    const Chosen suspects = std::exchange(failed_, {});
    bool any = false;
    for (const auto& [name, schedule] : suspects) {
      const absl::Status status = MakeToMeasure({{name, schedule}}).status();
      if (absl::IsCancelled(status)) return status;
      if (status.ok()) continue;
      any = true;
      std::vector<codegen::Schedule>& list = (*candidates)[name];
      list.erase(std::remove(list.begin(), list.end(), schedule), list.end());
      if (!options_.log) continue;
      options_.log(absl::StrCat(name, " cannot be made with ", codegen::ScheduleText(schedule), ": ",
                                status.message().substr(0, 400)));
    }
    failed_.clear();
    return any;
  }

  // Programs in which every site has one of its choices, the default among them, that together have all of them. Which
  // meet in a program is drawn by lot, anew for each set: where code and data lie, and what the steps around leave in
  // the caches and with the other threads, can make a third of a step of two microseconds, and must not favour a
  // choice.
  absl::StatusOr<std::map<std::string, Measured>> MeasureSet(const Candidates& candidates, size_t programs,
                                                             uint32_t set) {
    std::mt19937 random(set);
    std::map<std::string, size_t> first;
    for (const auto& [name, list] : candidates) first[name] = random() % (list.size() + 1);
    std::vector<Made> made;
    std::vector<LoadedArtifact*> in_turn;
    for (size_t p = 0; p < programs; ++p) {
      const auto part = static_cast<double>(p) / static_cast<double>(programs);
      Tell(0.35 * (set + part), absl::StrCat("program ", p + 1, " of ", programs));
      ASSIGN_OR_RETURN(Made one, MakeToMeasure(ChoicesOf(candidates, first, p)));
      made.push_back(std::move(one));
      in_turn.push_back(made.back().loaded.get());
    }
    RoundOptions timing = TimingOptions(true, kRounds);
    timing.budget /= 2;
    ASSIGN_OR_RETURN(const Rounds rounds, Measure(in_turn, timing));
    std::map<std::string, Measured> measured;
    for (const auto& [name, list] : candidates) {
      measured[name] = Collect(name, first[name], list.size() + 1, in_turn, rounds);
    }
    return measured;
  }

  // What the sites of program p are made by: choice 0 is the default.
  static Chosen ChoicesOf(const Candidates& candidates, const std::map<std::string, size_t>& first, size_t p) {
    Chosen chosen;
    for (const auto& [name, list] : candidates) {
      auto begin = first.find(name);
      const size_t choice = ((begin == first.end() ? 0 : begin->second) + p) % (list.size() + 1);
      if (choice > 0) chosen[name] = list[choice - 1];
    }
    return chosen;
  }

  // A choice that several programs have takes what they take on average.
  Measured Collect(const std::string& name, size_t first, size_t choices, const std::vector<LoadedArtifact*>& programs,
                   const Rounds& rounds) {
    Measured measured;
    measured.times.resize(choices);
    measured.names.resize(choices);
    std::vector<int> count(choices);
    for (size_t p = 0; p < programs.size(); ++p) {
      const size_t choice = (first + p) % choices;
      const std::vector<double> times = TimesOf(steps_[name], rounds.steps[p]);
      std::vector<double>& sum = measured.times[choice];
      sum.resize(times.size());
      for (size_t round = 0; round < times.size(); ++round) sum[round] += times[round];
      ++count[choice];
      const std::vector<std::string> names = programs[p]->StepNames();
      if (steps_[name][0] < names.size()) measured.names[choice] = names[steps_[name][0]];
    }
    for (size_t choice = 0; choice < choices; ++choice) {
      for (double& time : measured.times[choice]) time /= count[choice];
    }
    return measured;
  }

  RoundOptions TimingOptions(bool time_steps, int most) {
    RoundOptions options;
    options.time_steps = time_steps;
    options.budget = options_.budget;
    options.most = most;
    options.device = options_.device;
    options.cancelled = options_.compile.cancelled;
    options.patience = &patience_;
    options.watch = options_.watch;
    return options;
  }

  SiteResult Judge(const std::string& name, const std::vector<codegen::Schedule>& list, const Sets& sets) {
    const Measured &first = sets[0].at(name), &second = sets[1].at(name);
    const auto all = [&](size_t choice) {
      std::vector<double> times = first.times[choice];
      times.insert(times.end(), second.times[choice].begin(), second.times[choice].end());
      return times;
    };
    SiteResult site;
    site.name = name;
    site.default_us = Median(all(0));
    Times others_first = {first.times[0]}, others_second = {second.times[0]};
    for (size_t k = 0; k < list.size(); ++k) {
      // The provider that runs the default anyway is no other choice.
      if (list[k].count("provider") != 0 && first.names[k + 1] == first.names[0]) continue;
      others_first.push_back(first.times[k + 1]);
      others_second.push_back(second.times[k + 1]);
      const Ratio ratio = MedianRatio(all(k + 1), all(0));
      if (ratio.high >= kWorthwhile || ratio.value >= site.ratio.value) continue;
      site.ratio = ratio;
      site.schedule = codegen::ScheduleText(list[k]);
    }
    site.candidates = static_cast<int>(others_first.size());
    site.best_us = site.default_us * FastestRatio(others_first, others_second);
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
      ASSIGN_OR_RETURN(const bool kept, KeepAlgorithms(chosen, &tuned));
      if (!kept) continue;
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
    if (!plans_.empty()) {  // the default itself, but with plans
      ASSIGN_OR_RETURN(result_.artifact, Compile(canonical_, Options({})));
      return absl::OkStatus();
    }
    result_.artifact = std::move(default_->artifact);
    return absl::OkStatus();
  }

  // Makes the artifact again with algorithms in place of their numbers. False when some site went back to the default:
  // its number stood for no other algorithm.
  absl::StatusOr<bool> KeepAlgorithms(const Chosen& chosen, Made* tuned) {
    algorithms_.clear();
    if (options_.gpu == nullptr) return true;
    RETURN_IF_ERROR(tuned->loaded->Run());
    bool all = true;
    for (const auto& [name, schedule] : chosen) {
      if (schedule.count("algorithm") == 0) continue;
      const size_t step = steps_[name].front();
      std::string now = tuned->loaded->Algorithm(step);
      if (!now.empty() && now != default_->loaded->Algorithm(step)) {
        algorithms_[name] = std::move(now);
        continue;
      }
      BackToDefault(sites_[name]);
      all = false;
    }
    if (!all || algorithms_.empty()) return all;
    ASSIGN_OR_RETURN(*tuned, Make(chosen));
    return true;
  }

  static void BackToDefault(SiteResult& site) {
    site.schedule = "default";
    site.ratio = {};
  }

  // False when some site went back to the default.
  absl::StatusOr<bool> ConfirmSites(const Made& tuned, const Chosen& chosen) {
    ASSIGN_OR_RETURN(Rounds rounds, Measure({default_->loaded.get(), tuned.loaded.get()},
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
    ASSIGN_OR_RETURN(Rounds rounds, Measure({default_->loaded.get(), tuned.loaded.get()},
                                            TimingOptions(/*time_steps=*/false, 2 * kConfirmRounds)));
    result_.tuning.ratio = MedianRatio(rounds.totals[1], rounds.totals[0]);
    result_.tuning.runs = rounds.count();
    return result_.tuning.ratio.high < 1;
  }

  const Canonical& canonical_;
  const TuneOptions& options_;
  const KernelCache kernels_;
  const std::shared_ptr<LoadedArtifact::Common> memory_;
  Patience patience_;
  BusyMeter meter_;
  Chosen failed_;                                     // what a program that could not be measured was made by
  std::map<std::string, std::vector<size_t>> steps_;  // by site, of the plan
  std::map<std::string, std::string> keys_;           // of records, by site
  std::map<std::string, std::string> algorithms_;     // that plans keep, by site
  std::map<std::string, std::string> plans_;          // of calls without a choice, by name
  std::map<std::string, SiteResult> sites_, proved_;
  std::optional<Made> default_;
  TuneResult result_;
};

}  // namespace

absl::StatusOr<TuneResult> Tune(const Canonical& canonical, const TuneOptions& options) {
  return Tuner(canonical, options).Run();
}

}  // namespace preheat::autotune
