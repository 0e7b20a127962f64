#include "compiler/passes/form_attention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/users.h"
#include "compiler/rewrite/pattern.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;
using rewrite::FillValue;

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr int64_t kLeastScores = int64_t{1} << 16;  // of one matrix
constexpr int64_t kUnknownSize = 512;               // what a size that is not known counts as

// Values over the scores: added, or where bool, true shows a score, or hides it.
struct Mask {
  Value value;
  bool hides = false;
};

// The parts of a call, of the old graph. `nodes` are what it replaces, without the last product.
struct Attention {
  Value q, k, v;
  double scale = 1;
  std::vector<Mask> masks;  // the innermost last
  bool causal = false, safe = false;
  std::vector<Expr> scores;  // their shape at the softmax
  std::set<const Node*> nodes;
};

bool SameMatrix(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return a.size() >= 2 && b.size() >= 2 && a.back() == b.back() && a[a.size() - 2] == b[b.size() - 2];
}

// Is this 0, 1, 2, ... along the dimension that is `from_end` before the end, and the same along all others?
bool CountsAlong(Value v, int from_end) {
  while (v.node->op() == Op::kBroadcast) v = v.node->operand(0);
  const int rank = v.type().rank();
  if (v.node->op() == Op::kIota) return v.node->Int("dim") == rank - 1 - from_end;
  if (v.node->op() != Op::kReshape || from_end >= rank) return false;
  const Value line = v.node->operand(0);
  return line.node->op() == Op::kIota && line.type().rank() == 1 && line.shape()[0] == v.shape()[rank - 1 - from_end];
}

// Shows, over matrices, column <= row.
bool IsCausal(const Mask& mask) {
  Value v = mask.value;
  while (v.node->op() == Op::kBroadcast || v.node->op() == Op::kReshape) v = v.node->operand(0);
  if (v.type().rank() < 2) return false;
  const auto compares = [&](int left, int right) {
    return CountsAlong(v.node->operand(0), left) && CountsAlong(v.node->operand(1), right);
  };
  if (v.node->op() == (mask.hides ? Op::kGt : Op::kLe)) return compares(0, 1);
  return v.node->op() == (mask.hides ? Op::kLt : Op::kGe) && compares(1, 0);
}

// Reads a graph backwards from the last product.
class Reader {
 public:
  std::optional<Attention> Read(const Node& product) {
    if (product.op() != Op::kMatMul || product.results()[0].dtype != ir::DType::kF32) return std::nullopt;
    a_.v = product.operand(1);
    const Value weights = BelowReshapes(product.operand(0));
    if (!ReadSoftmax(weights) || !ReadScores(weights_of_)) return std::nullopt;
    return std::move(a_);
  }

 private:
  const Node& Take(Value v) {
    a_.nodes.insert(v.node);
    return *v.node;
  }

  // Through reshapes that leave the last two dimensions alone.
  Value BelowReshapes(Value v) {
    while (v.node->op() == Op::kReshape && SameMatrix(v.shape(), v.node->operand(0).shape())) v = Take(v).operand(0);
    return v;
  }
  Value BelowViews(Value v) {
    while (v.node->op() == Op::kReshape || v.node->op() == Op::kBroadcast) v = Take(v).operand(0);
    return v;
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
    return BelowViews(x);
  }

  bool ReducesRows(Value v, Op op, Value of) {
    if (v.node->op() != op || v.node->operand(0) != of) return false;
    Take(v);
    return v.node->Ints("dims") == std::vector<int64_t>{of.type().rank() - 1};
  }

  // exp(s - max(s)) / sum(exp(s - max(s))) along rows: leaves s in weights_of_.
  bool ReadSoftmax(Value weights) {
    if (weights.node->op() != Op::kDiv) return false;
    const Node& division = Take(weights);
    const Value e = division.operand(0);
    if (e.node->op() != Op::kExp || e.node->operand(0).node->op() != Op::kSub) return false;
    const Node& difference = Take(Take(e).operand(0));
    weights_of_ = difference.operand(0);
    a_.scores = weights_of_.shape();
    const Value sum = BelowGuard(BelowViews(division.operand(1)), 0, 1);
    const Value max = BelowGuard(BelowViews(difference.operand(1)), kNothing, 0);
    return ReducesRows(sum, Op::kReduceSum, e) && ReducesRows(max, Op::kReduceMax, weights_of_);
  }

  // Masks, scale, product, from the outside in.
  bool ReadScores(Value s) {
    s = BelowReshapes(s);
    if (s.node->op() == Op::kWhere && FillValue(s.node->operand(2)) == kNothing) return ReadChoice(s, 1);
    if (s.node->op() == Op::kWhere && FillValue(s.node->operand(1)) == kNothing) return ReadChoice(s, 2);
    if (s.node->op() == Op::kAdd) return ReadSum(s);
    return ReadScale(s);
  }

  // Minus infinity, or the operand `shown`.
  bool ReadChoice(Value s, int shown) {
    const Mask mask{s.node->operand(0), shown == 2};
    if (a_.masks.empty() && !a_.causal && IsCausal(mask)) {
      a_.causal = true;
    } else if (s.shape() == a_.scores) {
      a_.masks.push_back(mask);
    } else {
      return false;
    }
    return ReadScores(Take(s).operand(shown));
  }

  bool ReadSum(Value s) {
    if (s.shape() != a_.scores) return false;
    const Attention before = a_;
    for (int i = 0; i < 2; ++i) {
      a_ = before;
      a_.masks.push_back({Take(s).operand(1 - i)});
      if (ReadScores(s.node->operand(i))) return true;
    }
    return false;
  }

  bool ReadScale(Value s) {
    s = BelowReshapes(s);
    const bool times = s.node->op() == Op::kMul, over = s.node->op() == Op::kDiv;
    if (times || over) {
      const std::optional<double> factor = FillValue(s.node->operand(1));
      if (!factor) return false;
      a_.scale *= times ? *factor : 1 / *factor;
      return ReadScale(Take(s).operand(0));
    }
    if (s.node->op() != Op::kMatMul) return false;
    a_.q = Take(s).operand(0);
    a_.k = s.node->operand(1);
    return SameMatrix(s.shape(), a_.scores);
  }

  Attention a_;
  Value weights_of_;
};

// Nobody but the call itself sees what it replaces.
bool IsPrivate(const Attention& a, const Node& product, const Users& users) {
  return std::all_of(a.nodes.begin(), a.nodes.end(), [&](const Node* node) {
    if (users.IsOutput(node->result())) return false;
    const std::vector<const Node*>& readers = users.Of(node->result());
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Node* reader) { return reader == &product || a.nodes.count(reader) != 0; });
  });
}

bool IsWorthIt(const Attention& a) {
  const Expr &rows = a.scores[a.scores.size() - 2], &columns = a.scores.back();
  const int64_t n = columns.constant().value_or(kUnknownSize);
  return n > 0 && rows.constant().value_or(kUnknownSize) >= (kLeastScores + n - 1) / n;
}

// Not v, taken where v is small.
Value NotBelowViews(Value v, rewrite::Rebuild& r) {
  ir::Builder& b = r.builder();
  if (v.node->op() == Op::kBroadcast) return b.BroadcastTo(NotBelowViews(v.node->operand(0), r), v.shape());
  if (v.node->op() == Op::kReshape) return b.Reshape(NotBelowViews(v.node->operand(0), r), v.shape());
  return b.Unary(Op::kNot, r.Map(v));
}

Value Emit(const Attention& a, const Node& product, rewrite::Rebuild& r) {
  ir::Builder& b = r.builder();
  const std::vector<Expr> batch(a.scores.begin(), a.scores.end() - 2);
  const auto stacked = [&](Value v) {
    std::vector<Expr> shape = batch;
    shape.insert(shape.end(), v.shape().end() - 2, v.shape().end());
    return b.Reshape(r.Map(v), shape);
  };
  std::vector<Value> operands = {stacked(a.q), stacked(a.k)};
  std::vector<std::string> steps(a.masks.size(), "mask");
  for (size_t i = a.masks.size(); i-- > 0;) {
    const auto& [mask, hides] = a.masks[i];
    operands.push_back(hides ? NotBelowViews(mask, r) : r.Map(mask));
  }
  if (a.causal) steps.push_back("causal");
  steps.push_back(a.safe ? "safe_softmax" : "softmax");
  steps.push_back("values");
  operands.push_back(stacked(a.v));
  ir::TensorType type{ir::DType::kF32, batch};
  type.shape.push_back(a.scores[a.scores.size() - 2]);
  type.shape.push_back(a.v.shape().back());
  ir::Attrs attrs = {{"base", std::string("attention")}, {"scale", a.scale}, {"epilogue", steps}};
  return b.Reshape(b.Emit(Op::kFused, operands, std::move(attrs), {type}), product.results()[0].shape);
}

}  // namespace

absl::StatusOr<ir::Graph> FormAttention(const ir::Graph& graph) {
  const Users users(graph);
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const std::optional<Attention> found = Reader().Read(node);
    return found && IsWorthIt(*found) && IsPrivate(*found, node, users) ? Emit(*found, node, r) : Value();
  });
}

}  // namespace preheat::passes
