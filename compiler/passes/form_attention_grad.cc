#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/attention_scores.h"
#include "compiler/passes/form_attention.h"
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

struct AttentionGrad {
  AttentionScores scores;
  Value v, gradient, output, log_sums;
  const Node *dq = nullptr, *dk = nullptr, *dv = nullptr;  // the last products
  Nodes nodes;                                             // what the call replaces, but for these
};

// Is v the matrices of `of`, transposed?
bool IsTransposed(Value v, Value of) {
  if (v.node->op() != Op::kPermute || v.node->operand(0) != of) return false;
  const std::vector<int64_t>& dims = v.node->Ints("dims");
  const int64_t rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < rank - 2; ++i) {
    if (dims[i] != i) return false;
  }
  return rank >= 2 && dims[rank - 2] == rank - 1 && dims[rank - 1] == rank - 2;
}

// Reads a graph forwards from the weights.
class Reader {
 public:
  explicit Reader(const Users& users) : users_(users) {}

  std::optional<AttentionGrad> Read(const Node& weights) {
    if (!ReadWeights(weights)) return std::nullopt;
    std::optional<AttentionScores> scores = ReadScores(of_);
    if (!scores) return std::nullopt;
    a_.nodes.insert(scores->nodes.begin(), scores->nodes.end());
    a_.scores = *std::move(scores);
    if (!FindValuesGradient(weights.result()) || !FindOthers(weights.result())) return std::nullopt;
    return std::move(a_);
  }

 private:
  const Node& Take(Value v) {
    a_.nodes.insert(v.node);
    return *v.node;
  }

  // Where(s == -inf, 0, exp(s - log sums)): leaves s in of_.
  bool ReadWeights(const Node& weights) {
    if (weights.op() != Op::kWhere || FillValue(weights.operand(1)) != 0.0) return false;
    const Value hidden = weights.operand(0), e = weights.operand(2);
    if (hidden.node->op() != Op::kEq || FillValue(hidden.node->operand(1)) != kNothing) return false;
    if (e.node->op() != Op::kExp || e.node->operand(0).node->op() != Op::kSub) return false;
    Take(weights.result());
    Take(hidden);
    const Node& difference = Take(Take(e).operand(0));
    of_ = difference.operand(0);
    a_.log_sums = BelowViews(difference.operand(1), a_.nodes);
    return hidden.node->operand(0) == of_ && of_.type().rank() >= 2 &&
           a_.log_sums.type().NumElements() * of_.shape().back() == of_.type().NumElements();
  }

  // The one product whose left operand is x transposed.
  const Node* ProductOfTransposed(Value x) {
    for (const Node* user : users_.Of(x)) {
      if (user->op() != Op::kPermute || !IsTransposed(user->result(), x)) continue;
      const Node* product = users_.Only(user->result());
      if (product == nullptr || product->op() != Op::kMatMul || product->operand(0) != user->result()) return nullptr;
      Take(user->result());
      return product;
    }
    return nullptr;
  }

  // dv = weights' x gradient.
  bool FindValuesGradient(Value weights) {
    a_.dv = ProductOfTransposed(weights);
    if (a_.dv == nullptr) return false;
    a_.gradient = a_.dv->operand(1);
    return true;
  }

  // ds = weights * (gradient x v' - rows' sums of gradient * output) * scale; dq = ds x k', dk = ds' x q.
  bool FindOthers(Value weights) {
    for (const Node* user : users_.Of(weights)) {
      if (user->op() != Op::kMul) continue;
      const Value other = user->operand(user->operand(0) == weights ? 1 : 0);
      if (!ReadProducts(other)) return false;
      Take(user->result());
      return FindProducts(BeforeScale(user->result()));
    }
    return false;
  }

  bool ReadProducts(Value products) {
    if (products.node->op() != Op::kSub) return false;
    const Node& difference = Take(products);
    const Value product = difference.operand(0), dots = BelowViews(difference.operand(1), a_.nodes);
    if (product.node->op() != Op::kMatMul || product.node->operand(0) != a_.gradient) return false;
    const Value transposed = Take(product).operand(1);
    if (transposed.node->op() != Op::kPermute) return false;
    a_.v = transposed.node->operand(0);
    if (!IsTransposed(transposed, a_.v) || dots.node->op() != Op::kReduceSum) return false;
    const Value terms = dots.node->operand(0);
    if (terms.node->op() != Op::kMul || !ReducesRows(dots, Op::kReduceSum, terms, a_.nodes)) return false;
    const Node& times = Take(terms);
    const int mine = times.operand(0) == a_.gradient ? 0 : 1;
    a_.output = times.operand(1 - mine);
    return times.operand(mine) == a_.gradient;
  }

  // ds times the scale; ds itself where that is 1.
  Value BeforeScale(Value ds) {
    const Node* scaled = users_.Only(ds);
    if (scaled == nullptr || scaled->op() != Op::kMul || scaled->operand(0) != ds) return ds;
    const std::optional<double> factor = FillValue(scaled->operand(1));
    if (!factor) return ds;
    Take(scaled->result());
    scale_ = *factor;
    return scaled->result();
  }

  bool FindProducts(Value ds) {
    a_.dk = ProductOfTransposed(ds);
    for (const Node* user : users_.Of(ds)) {
      if (user->op() == Op::kMatMul && user->operand(0) == ds) a_.dq = user;
    }
    if (a_.dk == nullptr || a_.dq == nullptr || scale_ != a_.scores.scale) return false;
    return a_.dk->operand(1) == a_.scores.q && IsTransposed(a_.scores.k, a_.dq->operand(1));
  }

  const Users& users_;
  AttentionGrad a_;
  Value of_;
  double scale_ = 1;
};

// The gradients of q, k and v; empty where an operand comes later than the first of them.
std::vector<Value> Emit(const AttentionGrad& a, rewrite::Rebuild& r) {
  for (Value v : {a.v, a.gradient, a.output, a.log_sums}) {
    if (!r.Map(v)) return {};
  }
  AttentionCall call = BeginCall(a.scores, "attention_grad", r);
  for (Value v : {a.v, a.gradient, a.output}) call.operands.push_back(Stacked(a.scores, v, r));
  std::vector<ir::Expr> sums = a.scores.shape;
  sums.back() = ir::Expr(1);
  call.operands.push_back(r.builder().Reshape(r.Map(a.log_sums), sums));
  for (const char* step : {"values", "gradient", "output", "log_sums"}) call.steps.push_back(step);
  call.attrs["epilogue"] = call.steps;
  const auto type = [&](Value like) {
    ir::TensorType t{ir::DType::kF32, a.scores.shape};
    std::copy(like.shape().end() - 2, like.shape().end(), t.shape.end() - 2);
    return t;
  };
  const std::vector<ir::TensorType> types = {type(a.scores.q), type(a.dq->operand(1)), type(a.v)};
  return r.builder().EmitAll(Op::kFused, call.operands, std::move(call.attrs), types);
}

}  // namespace

absl::StatusOr<ir::Graph> FormAttentionGrad(const ir::Graph& graph) {
  const Users users(graph);
  std::vector<AttentionGrad> found;
  std::map<const Node*, std::pair<size_t, size_t>> ends;  // a last product -> which call's, which result
  for (const Node& node : graph.nodes()) {
    std::optional<AttentionGrad> a = Reader(users).Read(node);
    if (!a || !HasMatrix(a->scores) || !ArePrivate(a->nodes, {a->dq, a->dk, a->dv}, users)) continue;
    for (size_t i = 0; i < 3; ++i) ends[(std::array{a->dq, a->dk, a->dv})[i]] = {found.size(), i};
    found.push_back(*std::move(a));
  }
  std::map<size_t, std::vector<Value>> made;
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const auto end = ends.find(&node);
    if (end == ends.end()) return Value();
    const auto [call, number] = end->second;
    auto [results, first] = made.try_emplace(call);
    if (first) results->second = Emit(found[call], r);
    if (results->second.empty()) return Value();
    return r.builder().Reshape(results->second[number], node.results()[0].shape);
  });
}

}  // namespace preheat::passes
