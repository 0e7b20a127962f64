#include "compiler/schedule/find_roots.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "compiler/schedule/access.h"
#include "compiler/schedule/fuse.h"

namespace preheat::schedule {

using ir::Expr;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;

bool IsLeaf(Op op) { return op == Op::kFill || op == Op::kIota || op == Op::kSize; }
bool InMemory(Op op) { return op == Op::kInput || op == Op::kConstant; }

bool IsStartingFill(const Node& node, Value operand) {
  bool puts = node.op() == Op::kPutRows || node.op() == Op::kScatter;
  return puts && operand.node->op() == Op::kFill && operand == node.operand(0) && operand != node.operand(2);
}

namespace {

constexpr int kFunctionCost = 10;  // a transcendental function

}  // namespace

int CostOf(const Node& node) {
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

namespace {

constexpr int64_t kInnerLoop = 16;  // elements over which work outside an inner loop is spread

// A pad by nothing: the passes' word for "to be stored as it is".
bool PadsNothing(const Node& node) {
  if (node.op() != Op::kPad) return false;
  const auto nothing = [](const Expr& e) { return e == Expr(0); };
  const std::vector<Expr>&low = node.Exprs("low"), &high = node.Exprs("high");
  return std::all_of(low.begin(), low.end(), nothing) && std::all_of(high.begin(), high.end(), nothing);
}

class RootFinder {
 public:
  RootFinder(const Graph& graph, const Layouts& layouts, bool store_padding)
      : graph_(graph), layouts_(layouts), store_padding_(store_padding), ranges_(graph.SymbolRanges()), found_(graph) {}

  Roots Run() {
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
    for (const Node& node : graph_.nodes()) Visit(node, uses);
    return std::move(found_);
  }

 private:
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
    found_.is_root[value] = found_.required[value] = 1;
  }

  Value Memory(Value operand) const { return MemoryOf(operand, layouts_, ranges_); }

  void Visit(const Node& node, const std::vector<int>& uses) {
    if (InMemory(node.op())) return;
    int id = node.id();
    if (IsCall(node.op()) || IsNodeKernel(node.op())) {
      loads_[id] = whole_loads_[id] = 1;
      whole_bytes_[id] = node.results().empty() ? 0 : ElementBytes(node);
      return;
    }
    int cost = CostOf(node), loads = 0, whole = 0;
    int64_t bytes = 0;
    for (Value operand : node.operands()) {
      bool stored = InMemory(operand.node->op()) || found_.is_root[operand] != 0;
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
    if (ir::IsReduction(node.op()) || PadsNothing(node)) found_.is_root[node.result()] = 1;
    if (!ir::IsView(node.op()) && !IsLeaf(node.op()) && uses[id] > 1 && costly) found_.is_root[node.result()] = 1;
    if (cost > 400 || loads > 48) {  // bounds the size of what is inlined
      if (!ir::IsView(node.op())) found_.is_root[node.result()] = 1;
    }
    if (Repeats(node) && !RepeatsInnermost(node)) {
      Value base = BaseOf(node.operand(0));
      bool computed = !InMemory(base.node->op()) && !IsLeaf(base.node->op());
      bool indexed = node.op() == Op::kTake || node.op() == Op::kGather;
      bool costly_base = cost_[base.node->id()] >= kCostlyOps || loads_[base.node->id()] > 1;
      if (computed && (indexed ? !PicksFew(node, base) : costly_base)) found_.is_root[StoredOf(node, base)] = 1;
    }
    if (found_.is_root[node.result()]) {
      cost_[id] = 0, loads_[id] = whole_loads_[id] = 1;
      whole_bytes_[id] = ElementBytes(node);
    }
  }

  Value StoredOf(const Node& node, Value base) const {
    const bool padded = node.op() == Op::kWindow && base.node->op() == Op::kPad;
    return padded && !store_padding_ ? BaseOf(base.node->operand(0)) : base;
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

  const Graph& graph_;
  const Layouts& layouts_;
  const bool store_padding_;
  const ir::Ranges ranges_;
  Roots found_;
  std::vector<int> cost_, loads_;     // of what is inlined, by node id
  std::vector<int> whole_loads_;      // those of loads_ that are not broadcast
  std::vector<int64_t> whole_bytes_;  // an element's, of these
};

}  // namespace

Roots FindRoots(const Graph& graph, const Layouts& layouts, bool store_padding) {
  return RootFinder(graph, layouts, store_padding).Run();
}

}  // namespace preheat::schedule
