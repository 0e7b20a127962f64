#include "compiler/schedule/delay_steps.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "compiler/schedule/step_memory.h"

namespace preheat::schedule {
namespace {

using ir::Value;

constexpr size_t kManyReaders = 64;  // what more steps than this read is taken to live on

class Delayer {
 public:
  Delayer(const ir::Graph& graph, const Layouts& layouts, const Partition& partition)
      : steps_(partition.steps), memory_(graph, layouts, partition) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      label_.push_back(static_cast<double>(s));
      at_[label_.back()] = static_cast<int>(s);
    }
  }

  std::vector<Step> Run() {
    std::vector<int> before(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) before[s] = static_cast<int>(s);
    if (!memory_.known() || steps_.empty()) return steps_;
    for (size_t s = steps_.size(); s-- > 0;) Delay(static_cast<int>(s));
    std::vector<int> after;
    for (const auto& [label, step] : at_) after.push_back(step);
    if (Fullest(after) >= Fullest(before)) return steps_;
    std::vector<Step> ordered;
    for (int step : after) ordered.push_back(steps_[step]);
    return ordered;
  }

 private:
  void Delay(int s) {
    double first = -1;  // reader
    int64_t made = 0;
    for (Value output : memory_.OutputsOf(s)) {
      made += memory_.BytesOf(output);
      for (int reader : memory_.ReadersOf(output)) first = first < 0 ? label_[reader] : std::min(first, label_[reader]);
    }
    if (made == 0 || first < 0) return;
    int64_t kept = 0;
    for (Value input : memory_.InputsOf(s)) kept += IsKept(input, s, first) ? memory_.BytesOf(input) : 0;
    if (kept >= made) return;
    const double behind = std::prev(at_.find(first))->first, label = behind + (first - behind) / 2;
    if (behind == label_[s] || label <= behind || label >= first) return;
    at_.erase(label_[s]);
    label_[s] = label;
    at_[label] = s;
  }

  // Would the input be over before `then` if s came earlier?
  bool IsKept(Value input, int s, double then) const {
    const std::vector<int>& readers = memory_.ReadersOf(input);
    return readers.size() <= kManyReaders &&
           std::all_of(readers.begin(), readers.end(), [&](int r) { return r == s || label_[r] < then; });
  }

  // The most bytes that live at the same time.
  int64_t Fullest(const std::vector<int>& order) const {
    const std::vector<int64_t> live = memory_.Live(order);
    return *std::max_element(live.begin(), live.end());
  }

  const std::vector<Step>& steps_;
  const StepMemory memory_;
  std::vector<double> label_;  // of each step: the order
  std::map<double, int> at_;   // the step with that label
};

}  // namespace

void DelaySteps(const ir::Graph& graph, const Layouts& layouts, Partition& partition) {
  partition.steps = Delayer(graph, layouts, partition).Run();
}

}  // namespace preheat::schedule
