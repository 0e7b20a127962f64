#include "compiler/schedule/fuse.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/access.h"
#include "compiler/support/status_macros.h"

namespace preheat::schedule {

using ir::Expr;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;

bool IsCall(Op op) { return ir::IsLibrary(op) || op == Op::kExtern; }

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

namespace {

constexpr int kCostlyOps = 8;  // in simple operations; a transcendental function counts kFunctionCost
constexpr int kFunctionCost = 10;
constexpr size_t kMaxRegionNodes = 192;
constexpr int64_t kInnerLoop = 16;  // elements over which work outside an inner loop is spread
constexpr int64_t kFewRows = 16;    // fewer rows than this do not carry a large region
constexpr int64_t kLargeRegion = 1 << 16;
constexpr int kFarthest = 400;     // groups that a search for a dependence goes through
constexpr int64_t kFewBlocks = 8;  // fewer blocks of rows than this do not keep the threads busy

bool IsLeaf(Op op) { return op == Op::kFill || op == Op::kIota || op == Op::kSize; }
bool InMemory(Op op) { return op == Op::kInput || op == Op::kConstant; }

// A pad by nothing: the passes' word for "to be stored as it is".
bool PadsNothing(const Node& node) {
  if (node.op() != Op::kPad) return false;
  const auto nothing = [](const Expr& e) { return e == Expr(0); };
  const std::vector<Expr>&low = node.Exprs("low"), &high = node.Exprs("high");
  return std::all_of(low.begin(), low.end(), nothing) && std::all_of(high.begin(), high.end(), nothing);
}

int OwnCost(const Node& node) {
  if (ir::IsView(node.op()) || IsLeaf(node.op())) return 0;
  switch (node.op()) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kCast:
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kMax:
    case Op::kMin:
    case Op::kWhere:
    case Op::kNot:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: return 1;
    case Op::kDiv:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kReciprocal:
    case Op::kTake:
    case Op::kGather: return 3;
    default: return node.op() >= Op::kEq && node.op() <= Op::kGe ? 1 : kFunctionCost;
  }
}

// One read of a value in memory, from the loops of one root.
struct Access {
  Value root;
  Value input;
  Index index;  // in the root's loop variables
};

// The loops over a root's elements: for a reduction those of its operand.
struct Domain {
  std::vector<Expr> sizes;
  Index vars;
  std::vector<bool> reduced;
  bool trailing = true;  // reduced dimensions are the last ones
  ir::Ranges ranges;     // of the loop variables and of all sizes
};

// A group of roots computed by one kernel.
struct Group {
  bool alive = true;
  std::vector<Value> roots;
  RegionKind kind = RegionKind::kPointwise;
  Expr outer = 1;
  std::vector<Access> accesses;
  size_t nodes = 0;
  int64_t block = 0;           // as Region's
  const Node* call = nullptr;  // a call or node kernel: never merged
};

class Fuser {
 public:
  Fuser(const Graph& graph, const Layouts& layouts)
      : graph_(graph),
        layouts_(layouts),
        ranges_(graph.SymbolRanges()),
        roots_(graph),
        required_(graph),
        domains_(graph.nodes().size()),
        group_of_(graph, kNone) {}

  Partition Run(bool merge, bool block_sums) {
    FindRoots();
    MakeGroups();
    if (merge) MergeIntoConsumers();
    if (merge) MergeSiblings(/*by_producer=*/false);
    if (merge && block_sums) {
      MergeBlockSums();
      MergeSiblings(/*by_producer=*/true);  // the second halves of those sums
    }
    return Emit();
  }

 private:
  static constexpr int kNone = -1;

  // --- Roots ---

  void FindRoots() {
    const auto uses = CountUsesThroughViews();
    cost_.assign(graph_.nodes().size(), 0);
    loads_.assign(graph_.nodes().size(), 0);
    whole_loads_.assign(graph_.nodes().size(), 0);
    whole_bytes_.assign(graph_.nodes().size(), 0);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      Value direct = layouts_.direct_outputs()[i];
      Require(direct ? direct : graph_.outputs()[i].value);
    }
    for (const Node& node : graph_.nodes()) {
      if (!IsCall(node.op()) && !IsNodeKernel(node.op())) continue;
      for (size_t i = 0; i < node.results().size(); ++i) Require(node.result(static_cast<int>(i)));
      for (const Value& operand : node.operands()) {
        if (!IsStartingFill(node, operand)) Require(Memory(operand));
      }
    }
    for (const Node& node : graph_.nodes()) VisitForRoots(node, uses);
  }

  // What is put into is often all zeros: the kernel writes them itself.
  static bool IsStartingFill(const Node& node, Value operand) {
    bool puts = node.op() == Op::kPutRows || node.op() == Op::kScatter;
    return puts && operand.node->op() == Op::kFill && operand == node.operand(0) && operand != node.operand(2);
  }

  // How many non-view nodes read each node's results.
  std::vector<int> CountUsesThroughViews() const {
    std::vector<int> uses(graph_.nodes().size(), 0);
    for (const Node& node : graph_.nodes()) {
      if (ir::IsView(node.op())) continue;
      std::set<const Node*> seen;
      for (Value operand : node.operands()) CountUse(operand, seen, uses);
    }
    for (const ir::GraphOutput& output : graph_.outputs()) ++uses[output.value.node->id()];
    return uses;
  }
  static void CountUse(Value value, std::set<const Node*>& seen, std::vector<int>& uses) {
    if (!seen.insert(value.node).second) return;
    ++uses[value.node->id()];
    if (!ir::IsView(value.node->op())) return;
    for (Value operand : value.node->operands()) CountUse(operand, seen, uses);
  }

  void Require(Value value) {
    if (InMemory(value.node->op())) return;
    roots_[value] = required_[value] = 1;
  }

  Value Memory(Value operand) const { return MemoryOf(operand, layouts_, ranges_); }

  void VisitForRoots(const Node& node, const std::vector<int>& uses) {
    if (InMemory(node.op())) return;
    int id = node.id();
    if (IsCall(node.op()) || IsNodeKernel(node.op())) {
      loads_[id] = whole_loads_[id] = 1;
      whole_bytes_[id] = node.results().empty() ? 0 : ElementBytes(node);
      return;
    }
    int cost = OwnCost(node), loads = 0, whole = 0;
    int64_t bytes = 0;
    for (Value operand : node.operands()) {
      bool stored = InMemory(operand.node->op()) || roots_[operand] != 0;
      cost += stored ? 0 : cost_[operand.node->id()];
      loads += stored ? 1 : loads_[operand.node->id()];
      whole += stored ? 1 : whole_loads_[operand.node->id()];
      bytes += stored ? ir::DTypeSize(operand.dtype()) : whole_bytes_[operand.node->id()];
    }
    if (node.op() == Op::kBroadcast) whole = 0, bytes = 0;
    whole_bytes_[id] = std::min<int64_t>(bytes, 1000);
    cost_[id] = cost, loads_[id] = std::min(loads, 1000), whole_loads_[id] = std::min(whole, 1000);
    // With no more to load than it has itself, computing it again reads no more than it would be read, and spares the
    // store: one load of its own size, or two of half of it.
    bool costly = cost >= kCostlyOps || (whole >= 2 && bytes > ElementBytes(node));
    if (ir::IsReduction(node.op()) || PadsNothing(node)) roots_[node.result()] = 1;
    if (!ir::IsView(node.op()) && !IsLeaf(node.op()) && uses[id] > 1 && costly) roots_[node.result()] = 1;
    if (cost > 400 || loads > 48) {  // bounds the size of what is inlined
      if (!ir::IsView(node.op())) roots_[node.result()] = 1;
    }
    if (Repeats(node) && !RepeatsInnermost(node)) {
      Value base = BaseOf(node.operand(0));
      bool computed = !InMemory(base.node->op()) && !IsLeaf(base.node->op());
      bool indexed = node.op() == Op::kTake || node.op() == Op::kGather;
      bool costly_base = cost_[base.node->id()] >= kCostlyOps || loads_[base.node->id()] > 1;
      if (computed && (indexed ? !PicksFew(node, base) : costly_base)) roots_[base] = 1;
    }
    if (roots_[node.result()]) {
      cost_[id] = 0, loads_[id] = whole_loads_[id] = 1;
      whole_bytes_[id] = ElementBytes(node);
    }
  }

  // An indexed read of no more elements than there are: each is computed where it is read, and the others never.
  static bool PicksFew(const Node& node, Value base) {
    auto read = node.results()[0].NumElements().constant(), all = base.type().NumElements().constant();
    return read && all && *read <= *all;
  }

  static int64_t ElementBytes(const Node& node) { return ir::DTypeSize(node.results()[0].dtype); }

  // Nodes whose result reads an operand's element more than once.
  static bool Repeats(const Node& node) {
    return node.op() == Op::kBroadcast || node.op() == Op::kWindow || node.op() == Op::kTake ||
           node.op() == Op::kGather;
  }

  // A broadcast along the innermost dimension: what it reads is the same for a whole inner loop, and computed outside
  // it.
  static bool RepeatsInnermost(const Node& node) {
    if (node.op() != Op::kBroadcast) return false;
    const std::vector<Expr>& from = node.operand(0).shape();
    const std::vector<Expr>& to = node.results()[0].shape;
    for (size_t d = to.size(); d-- > 0;) {
      if (to[d] == Expr(1)) continue;
      if (from[d] != Expr(1)) return false;
      auto size = to[d].constant();
      return !size || *size >= kInnerLoop;
    }
    return false;
  }

  // --- Groups ---

  const Domain& DomainOf(Value root) const {
    std::unique_ptr<const Domain>& known = domains_[root.node->id()];  // of several results only calls have, no loops
    if (known == nullptr) known = std::make_unique<const Domain>(MakeDomain(root));
    return *known;
  }
  Domain MakeDomain(Value root) const {
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
  static std::vector<int64_t> ReducedDims(const Node& node) {
    if (node.Has("dims")) return node.Ints("dims");
    return {node.Int("dim")};
  }

  void MakeGroups() {
    for (const Node& node : graph_.nodes()) {
      if (IsCall(node.op()) || IsNodeKernel(node.op())) {
        AddCall(node);
        continue;
      }
      if (InMemory(node.op()) || !roots_[node.result()]) continue;
      Group group;
      group.roots = {node.result()};
      Classify(group);
      CollectAccesses(group, node.result());
      group_of_[node.result()] = static_cast<int>(groups_.size());
      groups_.push_back(std::move(group));
    }
    consumers_.resize(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const Access& access : groups_[g].accesses) {
        const int producer = group_of_[access.input];
        if (producer != kNone) consumers_[producer].insert(static_cast<int>(g));
      }
    }
    into_.resize(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      into_[g] = static_cast<int>(g);
      latest_.push_back(Latest(static_cast<int>(g)));
    }
  }

  void AddCall(const Node& node) {
    Group group;
    group.call = &node;
    for (size_t i = 0; i < node.results().size(); ++i) {
      group.roots.push_back(node.result(static_cast<int>(i)));
      group_of_[group.roots.back()] = static_cast<int>(groups_.size());
    }
    for (Value operand : node.operands()) {
      if (!IsStartingFill(node, operand)) group.accesses.push_back({group.roots[0], Memory(operand), {}});
    }
    if (node.op() == Op::kExtern && !group.roots.empty()) {
      // As if each took the one before: random numbers and collectives keep the program's order, whatever is merged.
      if (last_extern_) group.accesses.push_back({group.roots[0], last_extern_, {}});
      last_extern_ = group.roots[0];
    }
    groups_.push_back(std::move(group));
  }

  void Classify(Group& group) const {
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

  void CollectAccesses(Group& group, Value root) {
    const Domain& d = DomainOf(root);
    const ir::Ranges& ranges = d.ranges;
    std::set<std::pair<Value, Index>> seen;
    size_t reads = 0;
    Value start = ir::IsReduction(root.node->op()) ? root.node->operand(0) : root;
    Walk(group, root, start, d.vars, ranges, start == root, seen, reads);
  }

  // Visits what root's loops compute, down to values in memory.
  void Walk(Group& group, Value root, Value value, const Index& index, const ir::Ranges& ranges, bool top,
            std::set<std::pair<Value, Index>>& seen, size_t& reads) {
    if (!seen.insert({value, index}).second) return;
    const Node& node = *value.node;
    if (!top && (InMemory(node.op()) || roots_[value])) {
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

  void WalkIndexed(Group& group, Value root, const Node& node, const Index& index, const ir::Ranges& ranges,
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

  // --- Merging ---

  // Consumers come after producers in graph order; going forward, a producer has already absorbed its own.
  void MergeIntoConsumers() {
    for (size_t c = 0; c < groups_.size(); ++c) {
      bool merged = true;
      while (merged) {
        merged = false;
        for (int p : ProducersOf(static_cast<int>(c))) {
          if (!TryMerge(p, static_cast<int>(c))) continue;
          merged = true;
          break;
        }
      }
    }
  }

  // Nearest first.
  std::vector<int> ProducersOf(int c) const {
    std::vector<int> producers;
    for (const Access& access : groups_[c].accesses) {
      const int producer = group_of_[access.input];
      if (producer != kNone && producer != c) producers.push_back(producer);
    }
    std::sort(producers.begin(), producers.end(), std::greater<int>());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
    return producers;
  }

  bool TryMerge(int p, int c) {
    Group &producer = groups_[p], &consumer = groups_[c];
    if (producer.call || consumer.call) return false;
    if (producer.nodes + consumer.nodes > kMaxRegionNodes) return false;
    RegionKind kind = consumer.kind;
    Expr outer = consumer.outer;
    for (const Access& access : consumer.accesses) {
      if (group_of_[access.input] != p) continue;
      if (!Compatible(producer, access, kind, outer)) return false;
    }
    if (PathAround(p, c)) return false;
    Absorb(p, c, kind, outer);
    return true;
  }

  // May the consumer's loop compute what it reads by this access? Sets the kind and outer size it then has.
  bool Compatible(const Group& producer, const Access& access, RegionKind& kind, Expr& outer) const {
    const Domain& d = DomainOf(access.root);
    const ir::Ranges& ranges = d.ranges;
    Expr at = ranges.Simplify(Flatten(access.index, access.input.shape()));
    Expr count = access.input.type().NumElements();
    bool producer_loops = producer.kind != RegionKind::kPointwise;
    bool reduction = ir::IsReduction(access.root.node->op());
    if (reduction && at == KeptPosition(d, ranges) && count == access.root.type().NumElements() && count != Total(d)) {
      return OuterMatches(producer, kind, outer, count);  // one a row or column of a reduction
    }
    size_t prefix = PrefixOf(d, at, count, ranges);
    if (prefix == 0 && !(count == Expr(1))) return false;
    bool whole = count == Total(d);
    if (whole) {
      if (!producer_loops) return true;
      if (reduction && !d.trailing) return false;
      if (kind == RegionKind::kPointwise) {
        if (producer.kind == RegionKind::kColumn && producer.outer != count) return false;
        if (!HasPrefix(d, producer.outer)) return false;
        kind = producer.kind, outer = producer.outer;
        return true;
      }
      return kind == producer.kind && outer == producer.outer;
    }
    // The value is one a row of the consumer.
    if (reduction) return false;
    if (producer.kind == RegionKind::kColumn) return false;
    if (producer_loops && producer.outer != count) return false;
    if (kind == RegionKind::kColumn) return false;
    if (kind == RegionKind::kRow) return outer == count;
    if (TooFewRows(count, Total(d))) return false;
    kind = RegionKind::kRow, outer = count;
    return true;
  }

  bool OuterMatches(const Group& producer, RegionKind kind, const Expr& outer, const Expr& count) const {
    if (outer != count) return false;
    return producer.kind == RegionKind::kPointwise || (producer.kind == kind && producer.outer == count);
  }

  static bool TooFewRows(const Expr& rows, const Expr& total) {
    auto r = rows.constant();
    auto t = total.constant();
    return r && t && *r<kFewRows&& * t> kLargeRegion;
  }

  static Expr Total(const Domain& d) { return ir::NumElements(d.sizes); }

  static Expr KeptPosition(const Domain& d, const ir::Ranges& ranges) {
    Expr position;
    for (size_t i = 0; i < d.sizes.size(); ++i) {
      if (!d.reduced[i]) position = position * d.sizes[i] + d.vars[i];
    }
    return ranges.Simplify(position);
  }

  // The number of leading dimensions whose row-major position is `at` and whose count is `count`; 0 when none.
  static size_t PrefixOf(const Domain& d, const Expr& at, const Expr& count, const ir::Ranges& ranges) {
    Expr position, product(1);
    for (size_t k = 0; k < d.sizes.size(); ++k) {
      position = position * d.sizes[k] + d.vars[k];
      product = product * d.sizes[k];
      if (product == count && ranges.Simplify(position) == at) return k + 1;
    }
    return 0;
  }
  static bool HasPrefix(const Domain& d, const Expr& count) {
    Expr product(1);
    if (product == count) return true;
    for (const Expr& size : d.sizes) {
      product = product * size;
      if (product == count) return true;
    }
    return false;
  }

  // True when the consumer depends on the producer by another way too, through a group that stays apart.
  bool PathAround(int p, int c) {
    std::vector<int> start;
    for (int q : ProducersOf(c)) {
      if (q != p) start.push_back(q);
    }
    return Found(p, std::move(start));
  }

  // True when one of the groups on the stack is `wanted` or depends on it, or that is too far to tell.
  bool Found(int wanted, std::vector<int> stack) {
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
  int Earliest(int g) const {
    int id = groups_[g].roots[0].node->id();
    for (Value root : groups_[g].roots) id = std::min(id, root.node->id());
    return id;
  }
  int Latest(int g) const {
    int id = 0;
    for (Value root : groups_[g].roots) id = std::max(id, root.node->id());
    return id;
  }

  void Absorb(int p, int c, RegionKind kind, const Expr& outer) {
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
  void RaiseLatest(int group, int id) {
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

  // Groups that read the same value and loop over the same rows, neither needing the other. `by_producer`: of those
  // that sum columns, also what reads different values of one group.
  void MergeSiblings(bool by_producer) {
    std::map<Value, std::vector<int>> readers;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].alive || groups_[g].call) continue;
      if (by_producer && groups_[g].kind != RegionKind::kColumn) continue;
      std::set<Value> inputs;
      for (const Access& access : groups_[g].accesses) {
        const int producer = group_of_[access.input];
        inputs.insert(by_producer && producer != kNone ? groups_[producer].roots[0] : access.input);
      }
      for (Value input : inputs) readers[input].push_back(static_cast<int>(g));
    }
    for (auto& [input, groups] : readers) {
      for (size_t i = 0; i + 1 < groups.size() && i < 8; ++i) {
        for (size_t j = i + 1; j < groups.size() && j < i + 8; ++j) TrySiblings(groups[i], groups[j]);
      }
    }
  }

  void TrySiblings(int a, int b) {
    if (!groups_[a].alive || !groups_[b].alive || a == b) return;
    if (!SameLoops(groups_[a], groups_[b])) return;
    if (groups_[a].nodes + groups_[b].nodes > kMaxRegionNodes) return;
    if (Reaches(a, b) || Reaches(b, a)) return;
    Absorb(a, b, groups_[b].kind, groups_[b].outer);
  }

  bool SameLoops(const Group& a, const Group& b) const {
    if (a.kind != b.kind || a.outer != b.outer) return false;
    const Domain &da = DomainOf(a.roots[0]), &db = DomainOf(b.roots[0]);
    return da.sizes == db.sizes && da.reduced == db.reduced;
  }

  // True when `to` depends on `from`.
  bool Reaches(int from, int to) { return Found(from, {to}); }

  // --- Sums over blocks of rows ---

  // Into a group that goes through the same rows and shares a value with them, if they depend on each other at all
  // then row by row.
  void MergeBlockSums() {
    std::map<Value, std::vector<int>> rows;  // groups over rows, by what they read and compute
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].alive || groups_[g].call || groups_[g].kind != RegionKind::kRow) continue;
      for (const Access& access : groups_[g].accesses) rows[access.input].push_back(static_cast<int>(g));
      for (Value root : groups_[g].roots) rows[root].push_back(static_cast<int>(g));
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int sums = static_cast<int>(g);
      if (!IsBlockSums(groups_[g])) continue;
      std::set<int, std::greater<int>> candidates;
      for (const Access& access : groups_[g].accesses) {
        auto it = rows.find(access.input);
        if (it != rows.end()) candidates.insert(it->second.begin(), it->second.end());
      }
      for (int row : candidates) {
        if (TryBlockSums(sums, row)) break;
      }
    }
  }

  bool IsBlockSums(const Group& group) const {
    if (!group.alive || group.call || group.kind != RegionKind::kColumn) return false;
    const Expr total = Total(DomainOf(group.roots[0]));
    bool any = false;
    for (Value root : group.roots) {
      any |= IsBlockSum(*root.node);
      if (!IsBlockSum(*root.node) && (ir::IsReduction(root.node->op()) || root.type().NumElements() != total))
        return false;
      if (Total(DomainOf(root)) != total) return false;
    }
    return any;
  }

  bool TryBlockSums(int sums, int row) {
    Group &s = groups_[sums], &r = groups_[row];
    if (!s.alive || !r.alive || s.nodes + r.nodes > kMaxRegionNodes) return false;
    const Node* sum = nullptr;
    for (Value root : s.roots) {
      if (IsBlockSum(*root.node)) sum = root.node;
    }
    const std::vector<Expr>& shape = sum->operand(0).shape();
    const int64_t block = *shape[1].constant();
    if (*shape[0].constant() < kFewBlocks) return false;
    if (r.outer != shape[0] * shape[1] || (r.block != 0 && r.block != block)) return false;
    const Expr total = ir::NumElements(shape);
    if (std::none_of(r.roots.begin(), r.roots.end(), [&](Value v) { return Total(DomainOf(v)) == total; }))
      return false;
    if (!RowByRow(s, row, total, r.outer) || !RowByRow(r, sums, total, r.outer)) return false;
    if (PathAround(row, sums) || PathAround(sums, row)) return false;
    Absorb(sums, row, RegionKind::kRow, Expr(r.outer));
    r.block = block;
    return true;
  }

  // True when what `reader` reads of the other group is an element at the same place, or one a row.
  bool RowByRow(const Group& reader, int other, const Expr& total, const Expr& rows) const {
    for (const Access& access : reader.accesses) {
      if (group_of_[access.input] != other) continue;
      if (IsBlockSum(*access.input.node)) return false;
      const Domain& d = DomainOf(access.root);
      const ir::Ranges& ranges = d.ranges;
      const Expr count = access.input.type().NumElements();
      if (count != total && count != rows) return false;
      if (PrefixOf(d, ranges.Simplify(Flatten(access.index, access.input.shape())), count, ranges) == 0) return false;
    }
    return true;
  }

  // --- The result ---

  Partition Emit() {
    // Stored: required by others, or read by another group.
    ir::ValueMap<char> stored = required_;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const Access& access : groups_[g].accesses) {
        const int producer = group_of_[access.input];
        if (producer != kNone && producer != static_cast<int>(g)) stored[access.input] = 1;
      }
    }
    Partition partition;
    std::vector<int> state(groups_.size(), 0);
    for (size_t g = 0; g < groups_.size(); ++g) Visit(static_cast<int>(g), state, stored, partition);
    for (const Node& node : graph_.nodes()) {
      for (int i = 0; i < static_cast<int>(node.results().size()); ++i) {
        if (InMemory(node.op()) || stored[node.result(i)]) partition.stored.push_back(node.result(i));
      }
    }
    return partition;
  }

  // Depth first: producers before consumers. Explicit stack: graphs may be long chains.
  void Visit(int start, std::vector<int>& state, const ir::ValueMap<char>& stored, Partition& partition) const {
    std::vector<std::pair<int, bool>> stack = {{start, false}};
    while (!stack.empty()) {
      auto [g, done] = stack.back();
      stack.pop_back();
      if (!groups_[g].alive || (state[g] && !done)) continue;
      if (done) {
        AppendStep(groups_[g], stored, partition);
        continue;
      }
      state[g] = 1;
      stack.push_back({g, true});
      for (int p : ProducersOf(g)) {
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
  const Layouts& layouts_;
  ir::Ranges ranges_;
  ir::ValueMap<char> roots_, required_;
  std::vector<int> cost_, loads_;                               // of what is inlined, by node id
  std::vector<int> whole_loads_;                                // those of loads_ that are not broadcast
  std::vector<int64_t> whole_bytes_;                            // an element's, of these
  mutable std::vector<std::unique_ptr<const Domain>> domains_;  // by node id: made when first asked for
  std::vector<Group> groups_;
  std::vector<std::set<int>> consumers_;  // by the numbers that groups had before they were merged
  std::vector<int> into_;                 // the group that one went into, itself while it is alive
  std::vector<int> searched_;             // by group: the last search that came through
  int search_ = 0;
  std::vector<int> latest_;  // of the nodes that a group and all it depends on compute: the last
  ir::ValueMap<int> group_of_;
  Value last_extern_;
};

}  // namespace

namespace {

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

Value MemoryOf(Value operand, const Layouts& layouts, const ir::Ranges& sizes) {
  auto view = PeelViews(
      operand, [&](Value v) { return layouts.StridesOf(v); }, sizes);
  return view ? view->base : operand;
}

absl::StatusOr<Partition> Fuse(const Graph& graph, const Layouts& layouts, bool merge, bool block_sums) {
  Partition partition = Fuser(graph, layouts).Run(merge, block_sums);
  RETURN_IF_ERROR(CheckOrder(partition));
  return partition;
}

}  // namespace preheat::schedule
