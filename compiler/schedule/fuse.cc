#include "compiler/schedule/fuse.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/find_roots.h"
#include "compiler/schedule/groups.h"
#include "compiler/schedule/merge_groups.h"
#include "compiler/support/status_macros.h"

namespace preheat::schedule {

using ir::Expr;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;

bool IsCall(Op op) { return ir::IsLibrary(op) || ir::IsControl(op) || op == Op::kExtern; }

bool IsNodeKernel(Op op) {
  switch (op) {
    case Op::kScatter:
    case Op::kPutRows:
    case Op::kScanSum:
    case Op::kScanProd:
    case Op::kScanMax:
    case Op::kScanMin:
    case Op::kSort: return true;
    default: return false;
  }
}

bool IsBlockSum(const Node& node) {
  if (node.op() != Op::kReduceSum || node.operand(0).shape().size() != 3) return false;
  for (const Expr& size : node.operand(0).shape()) {
    if (size.constant().value_or(0) < 2) return false;
  }
  return node.Ints("dims") == std::vector<int64_t>{1};
}

Value MemoryOf(Value operand, const Layouts& layouts, const ir::Ranges& sizes) {
  auto view = PeelViews(
      operand, [&](Value v) { return layouts.StridesOf(v); }, sizes);
  return view ? view->base : operand;
}

namespace {

// Groups as steps, each after those that it reads of.
class Emitter {
 public:
  Emitter(const Graph& graph, const Groups& groups, const ir::ValueMap<char>& required)
      : graph_(graph), g_(groups), required_(required) {}

  Partition Run() {
    // Stored: required by others, or read by another group.
    ir::ValueMap<char> stored = required_;
    for (int g = 0; g < g_.size(); ++g) {
      for (const Access& access : g_[g].accesses) {
        const int producer = g_.Of(access.input);
        if (producer != Groups::kNone && producer != g) stored[access.input] = 1;
      }
    }
    Partition partition;
    std::vector<int> state(g_.size(), 0);
    for (int g = 0; g < g_.size(); ++g) Visit(g, state, stored, partition);
    for (const Node& node : graph_.nodes()) {
      for (int i = 0; i < static_cast<int>(node.results().size()); ++i) {
        if (InMemory(node.op()) || stored[node.result(i)]) partition.stored.push_back(node.result(i));
      }
    }
    return partition;
  }

 private:
  // Depth first: producers before consumers. Explicit stack: graphs may be long chains.
  void Visit(int start, std::vector<int>& state, const ir::ValueMap<char>& stored, Partition& partition) const {
    std::vector<std::pair<int, bool>> stack = {{start, false}};
    while (!stack.empty()) {
      auto [g, done] = stack.back();
      stack.pop_back();
      if (!g_[g].alive || (state[g] && !done)) continue;
      if (done) {
        AppendStep(g_[g], stored, partition);
        continue;
      }
      state[g] = 1;
      stack.push_back({g, true});
      for (int p : g_.ProducersOf(g)) {
        if (!state[p]) stack.push_back({p, false});
      }
    }
  }

  void AppendStep(const Group& group, const ir::ValueMap<char>& stored, Partition& partition) const {
    Step step;
    if (group.call && IsCall(group.call->op())) {
      step.call = group.call;
      partition.steps.push_back(std::move(step));
      return;
    }
    Region region;
    region.kind = group.call ? RegionKind::kNode : group.kind;
    region.outer = group.outer;
    region.block = group.block;
    std::set<Value> inputs;
    for (const Access& access : group.accesses) inputs.insert(access.input);
    region.inputs.assign(inputs.begin(), inputs.end());
    for (Value root : group.roots) {
      if (stored[root] || group.call) region.outputs.push_back(root);
    }
    std::sort(region.outputs.begin(), region.outputs.end());
    if (region.outputs.empty()) return;
    step.region = std::move(region);
    partition.steps.push_back(std::move(step));
  }

  const Graph& graph_;
  const Groups& g_;
  const ir::ValueMap<char>& required_;
};

// Regions that were merged in a circle would read what is computed after them: an error, never a wrong result.
absl::Status CheckOrder(const Partition& partition) {
  std::map<Value, size_t> computed;  // by which step
  for (size_t i = 0; i < partition.steps.size(); ++i) {
    if (!partition.steps[i].region) continue;
    for (Value output : partition.steps[i].region->outputs) computed[output] = i;
  }
  for (size_t i = 0; i < partition.steps.size(); ++i) {
    if (!partition.steps[i].region) continue;
    for (Value input : partition.steps[i].region->inputs) {
      auto it = computed.find(input);
      if (it != computed.end() && it->second > i) return absl::InternalError("regions were merged in a circle");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Partition> Fuse(const Graph& graph, const Layouts& layouts, bool merge, bool cpu,
                               const std::set<Value>& apart) {
  const Roots roots = FindRoots(graph, layouts, /*store_padding=*/!cpu);
  Groups groups(graph, layouts, roots);
  if (merge) {
    MergeIntoConsumers(groups, apart);
    MergeSiblings(groups, /*by_producer=*/false);
  }
  if (merge && cpu) {
    MergeBlockSums(groups);
    MergeSiblings(groups, /*by_producer=*/true);  // the second halves of those sums
  }
  Partition partition = Emitter(graph, groups, roots.required).Run();
  RETURN_IF_ERROR(CheckOrder(partition));
  return partition;
}

}  // namespace preheat::schedule
