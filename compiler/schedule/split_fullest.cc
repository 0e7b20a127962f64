#include "compiler/schedule/split_fullest.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/schedule/delay_steps.h"
#include "compiler/schedule/find_roots.h"
#include "compiler/schedule/step_memory.h"

namespace preheat::schedule {
namespace {

using ir::Node;
using ir::Value;

constexpr int kMostRounds = 16;
constexpr int64_t kWorth = 16;  // a part of all memory that is worth reading something twice

std::vector<int64_t> LiveInOrder(const StepMemory& memory, size_t steps) {
  std::vector<int> order(steps);
  std::iota(order.begin(), order.end(), 0);
  return memory.Live(order);
}

// What one output of a region needs: false when that is another output of it.
bool Need(const Region& region, Value output, Region& part, std::set<const Node*>& inner) {
  std::set<Value> inputs;
  std::vector<Value> stack = {output};
  while (!stack.empty()) {
    const Value value = stack.back();
    stack.pop_back();
    if (std::binary_search(region.inputs.begin(), region.inputs.end(), value)) {
      inputs.insert(value);
      continue;
    }
    if (value != output && std::binary_search(region.outputs.begin(), region.outputs.end(), value)) return false;
    if (!inner.insert(value.node).second) continue;
    for (Value operand : value.node->operands()) stack.push_back(operand);
  }
  part.outputs = {output};
  part.inputs.assign(inputs.begin(), inputs.end());
  return true;
}

// A region for each output, or nothing where they need each other or would do much twice.
std::vector<Region> PartsOf(const Step& step) {
  if (!step.region || step.region->kind != RegionKind::kPointwise || step.region->outputs.size() < 2) return {};
  std::vector<Region> parts;
  std::set<const Node*> all;
  int twice = 0;
  for (Value output : step.region->outputs) {
    std::set<const Node*> inner;
    Region part;
    if (!Need(*step.region, output, part, inner)) return {};
    for (const Node* node : inner) twice += all.insert(node).second ? 0 : CostOf(*node);
    parts.push_back(std::move(part));
  }
  return twice < kCostlyOps ? parts : std::vector<Region>();
}

// The steps with those apart during which more than `bytes` live; nothing when there are none.
std::optional<std::vector<Step>> Split(const std::vector<Step>& steps, const StepMemory& memory,
                                       const std::vector<int64_t>& live, int64_t bytes) {
  std::map<size_t, std::vector<Step>> before;  // a step: what is computed just before it
  std::set<size_t> split;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (live[s] <= bytes) continue;
    for (Region& part : PartsOf(steps[s])) {
      const std::vector<int>& readers = memory.ReadersOf(part.outputs[0]);
      const size_t first = readers.empty() ? s : *std::min_element(readers.begin(), readers.end());
      before[first].push_back({std::move(part)});
      split.insert(s);
    }
  }
  if (split.empty()) return std::nullopt;
  std::vector<Step> apart;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (auto it = before.find(s); it != before.end()) apart.insert(apart.end(), it->second.begin(), it->second.end());
    if (split.count(s) == 0) apart.push_back(steps[s]);
  }
  return apart;
}

}  // namespace

void SplitFullest(const ir::Graph& graph, const Layouts& layouts, Partition& partition) {
  for (int round = 0; round < kMostRounds; ++round) {
    const StepMemory memory(graph, layouts, partition);
    if (!memory.known() || partition.steps.empty()) return;
    const std::vector<int64_t> live = LiveInOrder(memory, partition.steps.size());
    const int64_t fullest = *std::max_element(live.begin(), live.end()), worth = fullest - fullest / kWorth;
    std::optional<std::vector<Step>> steps = Split(partition.steps, memory, live, worth);
    if (!steps) return;
    Partition apart{*std::move(steps), partition.stored};
    DelaySteps(graph, layouts, apart);
    const StepMemory after(graph, layouts, apart);
    const std::vector<int64_t> now = LiveInOrder(after, apart.steps.size());
    if (*std::max_element(now.begin(), now.end()) > worth) return;
    partition = std::move(apart);
  }
}

}  // namespace preheat::schedule
