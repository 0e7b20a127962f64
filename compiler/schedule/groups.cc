#include "compiler/schedule/groups.h"

#include <algorithm>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace preheat::schedule {

using ir::Expr;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;

namespace {

constexpr int kFarthest = 400;  // groups that a search for a dependence goes through

std::vector<int64_t> ReducedDims(const Node& node) {
  if (node.Has("dims")) return node.Ints("dims");
  return {node.Int("dim")};
}

}  // namespace

Expr Total(const Domain& d) { return ir::NumElements(d.sizes); }

Expr KeptPosition(const Domain& d) {
  Expr position;
  for (size_t i = 0; i < d.sizes.size(); ++i) {
    if (!d.reduced[i]) position = position * d.sizes[i] + d.vars[i];
  }
  return d.ranges.Simplify(position);
}

size_t PrefixOf(const Domain& d, const Expr& at, const Expr& count) {
  Expr position, product(1);
  for (size_t k = 0; k < d.sizes.size(); ++k) {
    position = position * d.sizes[k] + d.vars[k];
    product = product * d.sizes[k];
    if (product == count && d.ranges.Simplify(position) == at) return k + 1;
  }
  return 0;
}
bool HasPrefix(const Domain& d, const Expr& count) {
  Expr product(1);
  if (product == count) return true;
  for (const Expr& size : d.sizes) {
    product = product * size;
    if (product == count) return true;
  }
  return false;
}

// --- Making them ---

Groups::Groups(const Graph& graph, const Layouts& layouts, const Roots& roots)
    : layouts_(layouts),
      roots_(roots),
      ranges_(graph.SymbolRanges()),
      domains_(graph.nodes().size()),
      group_of_(graph, kNone) {
  for (const Node& node : graph.nodes()) {
    if (IsCall(node.op()) || IsNodeKernel(node.op())) {
      AddCall(node);
    } else if (!InMemory(node.op()) && roots_.is_root[node.result()]) {
      AddRoot(node.result());
    }
  }
  NoteConsumers();
}

void Groups::AddRoot(Value root) {
  Group group;
  group.roots = {root};
  Classify(group);
  CollectAccesses(group, root);
  group_of_[root] = static_cast<int>(groups_.size());
  groups_.push_back(std::move(group));
}

void Groups::NoteConsumers() {
  consumers_.resize(groups_.size());
  into_.resize(groups_.size());
  for (int g = 0; g < size(); ++g) {
    for (const Access& access : groups_[g].accesses) {
      const int producer = group_of_[access.input];
      if (producer != kNone) consumers_[producer].insert(g);
    }
    into_[g] = g;
    latest_.push_back(Latest(g));
  }
}

const Domain& Groups::DomainOf(Value root) const {
  std::unique_ptr<const Domain>& known = domains_[root.node->id()];  // of several results only calls have, no loops
  if (known == nullptr) known = std::make_unique<const Domain>(MakeDomain(root));
  return *known;
}
Domain Groups::MakeDomain(Value root) const {
  Domain d;
  bool reduction = ir::IsReduction(root.node->op());
  d.sizes = reduction ? root.node->operand(0).shape() : root.shape();
  d.reduced.assign(d.sizes.size(), false);
  d.ranges = ranges_;
  if (reduction) {
    for (int64_t dim : ReducedDims(*root.node)) d.reduced[dim] = true;
  }
  for (size_t i = 0; i < d.sizes.size(); ++i) {
    const std::string name = absl::StrCat("i", i);
    d.vars.push_back(d.sizes[i] == Expr(1) ? Expr(0) : Expr::Symbol(name));
    if (d.sizes[i] != Expr(1)) d.ranges.Set(name, 0, d.sizes[i] - 1);
    if (i > 0 && d.reduced[i - 1] && !d.reduced[i] && d.sizes[i] != Expr(1)) d.trailing = false;
  }
  return d;
}

void Groups::AddCall(const Node& node) {
  Group group;
  group.call = &node;
  const Value caller{&node, 0};  // of a call without results too, where the node alone counts
  for (size_t i = 0; i < node.results().size(); ++i) {
    group.roots.push_back(node.result(static_cast<int>(i)));
    group_of_[group.roots.back()] = static_cast<int>(groups_.size());
  }
  for (Value operand : node.operands()) {
    if (!IsStartingFill(node, operand)) group.accesses.push_back({caller, MemoryOf(operand, layouts_, ranges_), {}});
  }
  if (node.op() == Op::kExtern && !group.roots.empty()) {
    // As if each took the one before: random numbers and collectives keep the program's order, whatever is merged.
    if (last_extern_) group.accesses.push_back({caller, last_extern_, {}});
    last_extern_ = caller;
  }
  groups_.push_back(std::move(group));
}

void Groups::Classify(Group& group) const {
  Value root = group.roots[0];
  if (!ir::IsReduction(root.node->op())) return;
  const Domain& d = DomainOf(root);
  group.kind = RegionKind::kRow;
  for (size_t i = d.sizes.size(); i-- > 0;) {
    if (d.sizes[i] == Expr(1)) continue;
    if (!d.reduced[i]) group.kind = RegionKind::kColumn;
    break;
  }
  group.outer = root.type().NumElements();
}

void Groups::CollectAccesses(Group& group, Value root) {
  const Domain& d = DomainOf(root);
  const ir::Ranges& ranges = d.ranges;
  std::set<std::pair<Value, Index>> seen;
  size_t reads = 0;
  Value start = ir::IsReduction(root.node->op()) ? root.node->operand(0) : root;
  Walk(group, root, start, d.vars, ranges, start == root, seen, reads);
}

// Visits what root's loops compute, down to values in memory.
void Groups::Walk(Group& group, Value root, Value value, const Index& index, const ir::Ranges& ranges, bool top,
                  std::set<std::pair<Value, Index>>& seen, size_t& reads) {
  if (!seen.insert({value, index}).second) return;
  const Node& node = *value.node;
  if (!top && (InMemory(node.op()) || roots_.is_root[value])) {
    group.accesses.push_back({root, value, index});
    return;
  }
  ++group.nodes;
  if (ir::IsView(node.op()) && node.op() != Op::kConcat) {
    Walk(group, root, node.operand(0), ThroughView(node, index, ranges), ranges, false, seen, reads);
  } else if (node.op() == Op::kConcat) {
    Expr start(0);
    for (Value part : node.operands()) {
      Index at = index;
      at[node.Int("dim")] = index[node.Int("dim")] - start;
      start = start + part.shape()[node.Int("dim")];
      Walk(group, root, part, at, ranges, false, seen, reads);
    }
  } else if (node.op() == Op::kTake || node.op() == Op::kGather) {
    WalkIndexed(group, root, node, index, ranges, seen, reads);
  } else {
    for (Value operand : node.operands()) Walk(group, root, operand, index, ranges, false, seen, reads);
  }
}

void Groups::WalkIndexed(Group& group, Value root, const Node& node, const Index& index, const ir::Ranges& ranges,
                         std::set<std::pair<Value, Index>>& seen, size_t& reads) {
  int64_t dim = node.Int("dim");
  int index_rank = node.operand(1).type().rank();
  Expr found = Expr::Symbol(absl::StrCat("t", node.id(), "_", reads++));
  Index at, where;
  if (node.op() == Op::kGather) {
    at = index, where = index;
    at[dim] = found;
  } else {
    at.assign(index.begin(), index.begin() + dim);
    at.push_back(found);
    where.assign(index.begin() + dim, index.begin() + dim + index_rank);
    at.insert(at.end(), index.begin() + dim + index_rank, index.end());
  }
  Walk(group, root, node.operand(1), where, ranges, false, seen, reads);
  Walk(group, root, node.operand(0), at, ranges, false, seen, reads);
}

// --- What depends on what ---

std::vector<int> Groups::ProducersOf(int c) const {
  std::vector<int> producers;
  for (const Access& access : groups_[c].accesses) {
    const int producer = group_of_[access.input];
    if (producer != kNone && producer != c) producers.push_back(producer);
  }
  std::sort(producers.begin(), producers.end(), std::greater<int>());
  producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  return producers;
}

bool Groups::PathAround(int p, int c) {
  std::vector<int> start;
  for (int q : ProducersOf(c)) {
    if (q != p) start.push_back(q);
  }
  return Found(p, std::move(start));
}

// True when one of the groups on the stack is `wanted` or depends on it, or that is too far to tell.
bool Groups::Found(int wanted, std::vector<int> stack) {
  ++search_;
  searched_.resize(groups_.size(), 0);
  const int floor = Earliest(wanted);
  for (int count = 0; !stack.empty();) {
    const int q = stack.back();
    stack.pop_back();
    if (q == wanted) return true;
    if (searched_[q] == search_) continue;
    searched_[q] = search_;
    if (latest_[q] < floor) continue;
    if (++count > kFarthest) return true;
    for (int next : ProducersOf(q)) stack.push_back(next);
  }
  return false;
}
int Groups::Earliest(int g) const {
  int id = groups_[g].roots[0].node->id();
  for (Value root : groups_[g].roots) id = std::min(id, root.node->id());
  return id;
}
int Groups::Latest(int g) const {
  int id = 0;
  for (Value root : groups_[g].roots) id = std::max(id, root.node->id());
  return id;
}

void Groups::Absorb(int p, int c, RegionKind kind, const Expr& outer) {
  Group &producer = groups_[p], &consumer = groups_[c];
  consumer.kind = kind, consumer.outer = outer;
  consumer.nodes += producer.nodes;
  producer.alive = false;
  for (Value root : producer.roots) {
    consumer.roots.push_back(root);
    group_of_[root] = c;
  }
  std::vector<Access> accesses;
  for (std::vector<Access>* of : {&consumer.accesses, &producer.accesses}) {
    for (Access& access : *of) {
      if (group_of_[access.input] != c) accesses.push_back(std::move(access));
    }
  }
  consumer.accesses = std::move(accesses);
  producer.accesses.clear();
  into_[p] = c;
  consumers_[c].insert(consumers_[p].begin(), consumers_[p].end());
  RaiseLatest(c, std::max(latest_[c], latest_[p]));
}

// A merged group holds late roots, and whatever reads its early ones depends on what those need.
void Groups::RaiseLatest(int group, int id) {
  latest_[group] = id;
  std::vector<int> stack = {group};
  while (!stack.empty()) {
    int g = stack.back();
    stack.pop_back();
    for (int consumer : consumers_[g]) {
      while (into_[consumer] != consumer) consumer = into_[consumer];
      if (latest_[consumer] >= latest_[g]) continue;
      latest_[consumer] = latest_[g];
      stack.push_back(consumer);
    }
  }
}

}  // namespace preheat::schedule
