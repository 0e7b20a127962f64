#include "compiler/schedule/reduce_early.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "compiler/schedule/delay_steps.h"
#include "compiler/schedule/step_memory.h"
#include "compiler/support/status_macros.h"

namespace preheat::schedule {
namespace {

using ir::Node;
using ir::Value;

constexpr int kMostRounds = 4;
constexpr int64_t kWorth = 16;  // a part of all memory that is worth a step

std::vector<int64_t> LiveInOrder(const StepMemory& memory, size_t steps) {
  std::vector<int> order(steps);
  std::iota(order.begin(), order.end(), 0);
  return memory.Live(order);
}

int64_t Most(const std::vector<int64_t>& live) { return *std::max_element(live.begin(), live.end()); }

// What a region reads to compute `from`, without going through `around`; the nodes on the way go to `nodes`.
std::set<Value> InputsOf(const Region& region, const std::vector<Value>& from, Value around,
                         std::set<const Node*>& nodes) {
  std::set<Value> inputs;
  std::vector<Value> stack = from;
  while (!stack.empty()) {
    const Value value = stack.back();
    stack.pop_back();
    if (value == around) continue;
    if (std::binary_search(region.inputs.begin(), region.inputs.end(), value)) {
      inputs.insert(value);
    } else if (nodes.insert(value.node).second) {
      for (Value operand : value.node->operands()) stack.push_back(operand);
    }
  }
  return inputs;
}

class Finder {
 public:
  Finder(const std::vector<Step>& steps, const StepMemory& memory, const std::vector<int64_t>& live, int64_t worth)
      : steps_(steps), memory_(memory), live_(live), worth_(worth) {}

  // Reductions inside regions that keep more than they are while more than `worth` lives.
  std::set<Value> Run() const {
    std::set<Value> found;
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (!steps_[s].region) continue;
      const Region& region = *steps_[s].region;
      std::set<const Node*> nodes;
      InputsOf(region, region.outputs, {}, nodes);
      for (const Node* node : nodes) {
        const bool stored = std::binary_search(region.outputs.begin(), region.outputs.end(), node->result());
        if (ir::IsReduction(node->op()) && !stored && Keeps(s, node->result())) found.insert(node->result());
      }
    }
    return found;
  }

 private:
  // Does step s keep memory for this value alone, and more than the value itself takes, where there is little?
  bool Keeps(size_t s, Value value) const {
    const Region& region = *steps_[s].region;
    std::set<const Node*> nodes, others;
    const std::set<Value> rest = InputsOf(region, region.outputs, value, others);
    std::vector<Value> operands(value.node->operands().begin(), value.node->operands().end());
    const auto elements = value.type().NumElements().constant();
    int64_t kept = 0;
    size_t since = 0;  // the step from which on nobody else reads what is kept
    for (Value input : InputsOf(region, operands, {}, nodes)) {
      const std::vector<int>& readers = memory_.ReadersOf(input);
      if (rest.count(input) != 0 || static_cast<size_t>(*std::max_element(readers.begin(), readers.end())) != s) {
        continue;
      }
      kept += memory_.BytesOf(input);
      for (int reader : readers) since = std::max(since, static_cast<size_t>(reader) == s ? 0 : size_t(reader) + 1);
    }
    if (!elements || kept <= *elements * ir::DTypeSize(value.dtype())) return false;
    return std::any_of(live_.begin() + static_cast<int64_t>(std::min(since, s)),
                       live_.begin() + static_cast<int64_t>(s), [&](int64_t bytes) { return bytes > worth_; });
  }

  const std::vector<Step>& steps_;
  const StepMemory& memory_;
  const std::vector<int64_t>& live_;
  const int64_t worth_;
};

}  // namespace

absl::Status ReduceEarly(const ir::Graph& graph, const Layouts& layouts, Partition& partition) {
  std::set<Value> apart;
  for (int round = 0; round < kMostRounds; ++round) {
    const StepMemory memory(graph, layouts, partition);
    if (!memory.known() || partition.steps.empty()) break;
    const std::vector<int64_t> live = LiveInOrder(memory, partition.steps.size());
    const int64_t worth = Most(live) - Most(live) / kWorth;
    const std::set<Value> found = Finder(partition.steps, memory, live, worth).Run();
    if (found.empty()) break;
    apart.insert(found.begin(), found.end());
    ASSIGN_OR_RETURN(Partition early, Fuse(graph, layouts, /*merge=*/true, /*cpu=*/true, apart));
    DelaySteps(graph, layouts, early);
    if (Most(LiveInOrder(StepMemory(graph, layouts, early), early.steps.size())) > worth) break;
    partition = std::move(early);
  }
  return absl::OkStatus();
}

}  // namespace preheat::schedule
