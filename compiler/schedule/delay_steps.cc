#include "compiler/schedule/delay_steps.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace preheat::schedule {
namespace {

using ir::Value;

constexpr size_t kManyReaders = 64;  // what more steps than this read is taken to live on

class Delayer {
 public:
  Delayer(const ir::Graph& graph, const Layouts& layouts, const Partition& partition)
      : layouts_(layouts), sizes_(graph.SymbolRanges()), steps_(partition.steps), readers_(graph), bytes_(graph, 0) {
    for (Value value : partition.stored) known_ = known_ && SetBytes(value);
    for (const ir::GraphOutput& output : graph.outputs()) NoteOutput(output.value);
    for (Value value : layouts.direct_outputs()) {
      if (value) NoteOutput(value);
    }
    for (size_t s = 0; s < steps_.size(); ++s) {
      known_ = known_ && !(steps_[s].call && steps_[s].call->op() == ir::Op::kExtern);
      inputs_.push_back(InputsOf(steps_[s]));
      for (Value input : inputs_.back()) readers_[input].push_back(static_cast<int>(s));
      label_.push_back(static_cast<double>(s));
      at_[label_.back()] = static_cast<int>(s);
    }
  }

  std::vector<Step> Run() {
    std::vector<int> before(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) before[s] = static_cast<int>(s);
    if (!known_ || steps_.empty()) return steps_;
    for (size_t s = steps_.size(); s-- > 0;) Delay(static_cast<int>(s));
    std::vector<int> after;
    for (const auto& [label, step] : at_) after.push_back(step);
    if (Fullest(after) >= Fullest(before)) return steps_;
    std::vector<Step> ordered;
    for (int step : after) ordered.push_back(steps_[step]);
    return ordered;
  }

 private:
  std::set<Value> InputsOf(const Step& step) const {
    if (step.region) return {step.region->inputs.begin(), step.region->inputs.end()};
    std::set<Value> inputs;
    for (Value operand : step.call->operands()) inputs.insert(MemoryOf(operand, layouts_, sizes_));
    return inputs;
  }
  static std::vector<Value> OutputsOf(const Step& step) {
    if (step.region) return step.region->outputs;
    std::vector<Value> outputs;
    for (size_t i = 0; i < step.call->results().size(); ++i) outputs.push_back(step.call->result(static_cast<int>(i)));
    return outputs;
  }

  // Inputs, constants and outputs have memory of their own all along: 0.
  bool SetBytes(Value value) {
    if (value.node->op() == ir::Op::kInput || value.node->op() == ir::Op::kConstant) return true;
    auto elements = value.type().NumElements().constant();
    if (!elements) return false;
    bytes_[value] = *elements * ir::DTypeSize(value.dtype());
    return true;
  }
  void NoteOutput(Value value) { bytes_[value] = 0; }

  void Delay(int s) {
    double first = -1;  // reader
    int64_t made = 0;
    for (Value output : OutputsOf(steps_[s])) {
      made += bytes_[output];
      for (int reader : readers_[output]) first = first < 0 ? label_[reader] : std::min(first, label_[reader]);
    }
    if (made == 0 || first < 0) return;
    int64_t kept = 0;
    for (Value input : inputs_[s]) kept += EndsWith(input, s) ? bytes_[input] : 0;
    if (kept >= made) return;
    const double behind = std::prev(at_.find(first))->first, label = behind + (first - behind) / 2;
    if (behind == label_[s] || label <= behind || label >= first) return;
    at_.erase(label_[s]);
    label_[s] = label;
    at_[label] = s;
  }

  bool EndsWith(Value input, int s) const {
    const std::vector<int>& readers = readers_[input];
    return readers.size() <= kManyReaders &&
           std::all_of(readers.begin(), readers.end(), [&](int reader) { return label_[reader] <= label_[s]; });
  }

  // The most bytes that live at the same time.
  int64_t Fullest(const std::vector<int>& order) const {
    std::vector<size_t> position(order.size());
    for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
    std::vector<int64_t> ending(order.size(), 0);
    int64_t live = 0, most = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      for (Value output : OutputsOf(steps_[order[i]])) {
        size_t last = i;
        for (int reader : readers_[output]) last = std::max(last, position[reader]);
        live += bytes_[output];
        ending[last] += bytes_[output];
      }
      most = std::max(most, live);
      live -= ending[i];
    }
    return most;
  }

  const Layouts& layouts_;
  const ir::Ranges sizes_;
  const std::vector<Step>& steps_;
  std::vector<std::set<Value>> inputs_;     // of each step, in memory
  ir::ValueMap<std::vector<int>> readers_;  // steps
  ir::ValueMap<int64_t> bytes_;
  std::vector<double> label_;  // of each step: the order
  std::map<double, int> at_;   // the step with that label
  bool known_ = true;
};

}  // namespace

void DelaySteps(const ir::Graph& graph, const Layouts& layouts, Partition& partition) {
  partition.steps = Delayer(graph, layouts, partition).Run();
}

}  // namespace preheat::schedule
