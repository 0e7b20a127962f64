#include "compiler/passes/form_attention.h"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/attention_scores.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/pattern.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;
using rewrite::FillValue;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Attention {
  AttentionScores scores;
  Value v;
  bool safe = false;
  const Node* product = nullptr;   // weights x v
  const Node* log_sums = nullptr;  // log(sum(exp(scores))), where somebody asks for it
  Nodes nodes;                     // what the call replaces, but for these two
};

// Reads a graph backwards from the last product.
class Reader {
 public:
  explicit Reader(const Users& users) : users_(users) {}

  std::optional<Attention> Read(const Node& product) {
    if (product.op() != Op::kMatMul || product.results()[0].dtype != ir::DType::kF32) return std::nullopt;
    a_.product = &product;
    a_.v = product.operand(1);
    if (!ReadSoftmax(BelowReshapes(product.operand(0), a_.nodes))) return std::nullopt;
    std::optional<AttentionScores> scores = ReadScores(of_);
    if (!scores) return std::nullopt;
    a_.nodes.insert(scores->nodes.begin(), scores->nodes.end());
    a_.scores = *std::move(scores);
    FindLogSums();
    return std::move(a_);
  }

 private:
  const Node& Take(Value v) {
    a_.nodes.insert(v.node);
    return *v.node;
  }

  // Where(x == special, instead, x) is x; sets a_.safe.
  Value BelowGuard(Value v, double special, double instead) {
    if (v.node->op() != Op::kWhere) return v;
    const Value condition = v.node->operand(0), x = v.node->operand(2);
    if (condition.node->op() != Op::kEq || condition.node->operand(0) != x) return v;
    if (FillValue(condition.node->operand(1)) != special || FillValue(v.node->operand(1)) != instead) return v;
    Take(v);
    Take(condition);
    a_.safe = true;
    return BelowViews(x, a_.nodes);
  }

  // exp(s - max(s)) / sum(exp(s - max(s))) along rows: leaves s in of_ and max(s) in max_.
  bool ReadSoftmax(Value weights) {
    if (weights.node->op() != Op::kDiv) return false;
    const Node& division = Take(weights);
    const Value e = division.operand(0);
    if (e.node->op() != Op::kExp || e.node->operand(0).node->op() != Op::kSub) return false;
    const Node& difference = Take(Take(e).operand(0));
    of_ = difference.operand(0);
    const Value sum = BelowGuard(BelowViews(division.operand(1), a_.nodes), 0, 1);
    max_ = BelowGuard(BelowViews(difference.operand(1), a_.nodes), kNothing, 0);
    return ReducesRows(sum, Op::kReduceSum, e, a_.nodes) && ReducesRows(max_, Op::kReduceMax, of_, a_.nodes);
  }

  // log(sum(exp(s - max(s)))) + max(s), if there is one: a sum that reads max(s) through views.
  void FindLogSums() {
    std::vector<Value> shown = {max_};
    while (!shown.empty()) {
      const Value v = shown.back();
      shown.pop_back();
      for (const Node* user : users_.Of(v)) {
        if (user->op() == Op::kReshape) shown.push_back(user->result());
        if (user->op() != Op::kAdd || user->id() < a_.product->id()) continue;
        Nodes nodes;
        if (IsLogSums(user->operand(user->operand(0) == v ? 1 : 0), nodes)) {
          BelowViews(v, nodes);
          a_.log_sums = user;
          a_.nodes.insert(nodes.begin(), nodes.end());
          return;
        }
      }
    }
  }

  bool IsLogSums(Value log, Nodes& nodes) const {
    log = BelowViews(log, nodes);
    if (log.node->op() != Op::kLog) return false;
    nodes.insert(log.node);
    const Value sum = BelowViews(log.node->operand(0), nodes);
    if (sum.node->op() != Op::kReduceSum) return false;
    const Value e = sum.node->operand(0);
    if (e.node->op() != Op::kExp || !ReducesRows(sum, Op::kReduceSum, e, nodes)) return false;
    const Value difference = e.node->operand(0);
    if (difference.node->op() != Op::kSub || difference.node->operand(0) != of_) return false;
    nodes.insert({e.node, difference.node});
    return BelowViews(difference.node->operand(1), nodes) == max_;
  }

  const Users& users_;
  Attention a_;
  Value of_, max_;
};

// The call's results, one or two.
std::vector<Value> Emit(const Attention& a, rewrite::Rebuild& r) {
  AttentionCall call = BeginCall(a.scores, "attention", r);
  call.operands.push_back(Stacked(a.scores, a.v, r));
  call.steps.push_back(a.safe ? "safe_softmax" : "softmax");
  call.steps.push_back("values");
  call.attrs["epilogue"] = call.steps;
  std::vector<ir::TensorType> types(a.log_sums != nullptr ? 2 : 1, {ir::DType::kF32, a.scores.shape});
  types[0].shape.back() = a.v.shape().back();
  if (types.size() > 1) types[1].shape.back() = ir::Expr(1);
  return r.builder().EmitAll(Op::kFused, call.operands, std::move(call.attrs), types);
}

}  // namespace

absl::StatusOr<ir::Graph> FormAttention(const ir::Graph& graph) {
  const Users users(graph);
  std::map<const Node*, Attention> found;   // by the product
  std::map<const Node*, const Node*> ends;  // either end -> the product
  for (const Node& node : graph.nodes()) {
    std::optional<Attention> a = Reader(users).Read(node);
    if (!a || !HasMatrix(a->scores) || !ArePrivate(a->nodes, {a->product, a->log_sums}, users)) continue;
    ends[a->product] = a->product;
    if (a->log_sums != nullptr) ends[a->log_sums] = a->product;
    found.emplace(a->product, *std::move(a));
  }
  std::map<const Node*, std::vector<Value>> made;
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const auto end = ends.find(&node);
    if (end == ends.end()) return Value();
    auto [results, first] = made.try_emplace(end->second);
    if (first) results->second = Emit(found.at(end->second), r);
    if (results->second.empty()) return Value();  // the builder has failed
    return r.builder().Reshape(results->second[&node == end->second ? 0 : 1], node.results()[0].shape);
  });
}

}  // namespace preheat::passes
