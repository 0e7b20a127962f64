#include "compiler/passes/attention_scores.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/rewrite/pattern.h"

namespace preheat::passes {
namespace {

using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;
using rewrite::FillValue;

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr int64_t kLeastRows = 4;

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
bool IsCausal(const ScoreMask& mask) {
  Value v = mask.value;
  while (v.node->op() == Op::kBroadcast || v.node->op() == Op::kReshape) v = v.node->operand(0);
  if (v.type().rank() < 2) return false;
  const auto compares = [&](int left, int right) {
    return CountsAlong(v.node->operand(0), left) && CountsAlong(v.node->operand(1), right);
  };
  if (v.node->op() == (mask.hides ? Op::kGt : Op::kLe)) return compares(0, 1);
  return v.node->op() == (mask.hides ? Op::kLt : Op::kGe) && compares(1, 0);
}

// Reads masks, scale and product from the outside in.
class Reader {
 public:
  explicit Reader(Value scores) { found_.shape = scores.shape(); }

  bool Read(Value s) {
    s = BelowReshapes(s, found_.nodes);
    if (s.node->op() == Op::kWhere && FillValue(s.node->operand(2)) == kNothing) return ReadChoice(s, 1);
    if (s.node->op() == Op::kWhere && FillValue(s.node->operand(1)) == kNothing) return ReadChoice(s, 2);
    if (s.node->op() == Op::kAdd) return ReadSum(s);
    return ReadScale(s);
  }
  AttentionScores& found() { return found_; }

 private:
  const Node& Take(Value v) {
    found_.nodes.insert(v.node);
    return *v.node;
  }

  // Minus infinity, or the operand `shown`.
  bool ReadChoice(Value s, int shown) {
    const ScoreMask mask{s.node->operand(0), shown == 2};
    if (found_.masks.empty() && !found_.causal && IsCausal(mask)) {
      found_.causal = true;
    } else if (s.shape() == found_.shape) {
      found_.masks.push_back(mask);
    } else {
      return false;
    }
    return Read(Take(s).operand(shown));
  }

  bool ReadSum(Value s) {
    if (s.shape() != found_.shape) return false;
    const AttentionScores before = found_;
    for (int i = 0; i < 2; ++i) {
      found_ = before;
      found_.masks.push_back({Take(s).operand(1 - i)});
      if (Read(s.node->operand(i))) return true;
    }
    return false;
  }

  bool ReadScale(Value s) {
    s = BelowReshapes(s, found_.nodes);
    const bool times = s.node->op() == Op::kMul, over = s.node->op() == Op::kDiv;
    if (times || over) {
      const std::optional<double> factor = FillValue(s.node->operand(1));
      if (!factor) return false;
      found_.scale *= times ? *factor : 1 / *factor;
      return ReadScale(Take(s).operand(0));
    }
    if (s.node->op() != Op::kMatMul || s.dtype() != ir::DType::kF32) return false;
    found_.q = Take(s).operand(0);
    found_.k = s.node->operand(1);
    return SameMatrix(s.shape(), found_.shape);
  }

  AttentionScores found_;
};

// Not v, taken where v is small.
Value NotBelowViews(Value v, rewrite::Rebuild& r) {
  ir::Builder& b = r.builder();
  if (v.node->op() == Op::kBroadcast) return b.BroadcastTo(NotBelowViews(v.node->operand(0), r), v.shape());
  if (v.node->op() == Op::kReshape) return b.Reshape(NotBelowViews(v.node->operand(0), r), v.shape());
  return b.Unary(Op::kNot, r.Map(v));
}

}  // namespace

std::optional<AttentionScores> ReadScores(Value scores) {
  if (scores.type().rank() < 2 || scores.dtype() != ir::DType::kF32) return std::nullopt;
  Reader reader(scores);
  if (!reader.Read(scores)) return std::nullopt;
  return std::move(reader.found());
}

bool HasMatrix(const AttentionScores& scores) {
  const Expr &rows = scores.shape[scores.shape.size() - 2], &columns = scores.shape.back();
  return rows.constant().value_or(kLeastRows) >= kLeastRows && columns.constant().value_or(1) > 0;
}

Value BelowViews(Value v, Nodes& nodes) {
  for (; v.node->op() == Op::kReshape || v.node->op() == Op::kBroadcast; v = v.node->operand(0)) nodes.insert(v.node);
  return v;
}

Value BelowReshapes(Value v, Nodes& nodes) {
  for (; v.node->op() == Op::kReshape && SameMatrix(v.shape(), v.node->operand(0).shape()); v = v.node->operand(0)) {
    nodes.insert(v.node);
  }
  return v;
}

bool ReducesRows(Value v, Op op, Value of, Nodes& nodes) {
  if (v.node->op() != op || v.node->operand(0) != of) return false;
  nodes.insert(v.node);
  return v.node->Ints("dims") == std::vector<int64_t>{of.type().rank() - 1};
}

bool ArePrivate(const Nodes& nodes, const Nodes& ends, const Users& users) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    if (users.IsOutput(node->result())) return false;
    const std::vector<const Node*>& readers = users.Of(node->result());
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Node* reader) { return ends.count(reader) != 0 || nodes.count(reader) != 0; });
  });
}

Value Stacked(const AttentionScores& scores, Value v, rewrite::Rebuild& r) {
  std::vector<Expr> shape(scores.shape.begin(), scores.shape.end() - 2);
  shape.insert(shape.end(), v.shape().end() - 2, v.shape().end());
  return r.builder().Reshape(r.Map(v), shape);
}

AttentionCall BeginCall(const AttentionScores& scores, const char* base, rewrite::Rebuild& r) {
  AttentionCall call;
  call.operands = {Stacked(scores, scores.q, r), Stacked(scores, scores.k, r)};
  call.attrs = {{"base", std::string(base)}, {"scale", scores.scale}};
  for (size_t i = scores.masks.size(); i-- > 0;) {
    const auto& [mask, hides] = scores.masks[i];
    call.operands.push_back(hides ? NotBelowViews(mask, r) : r.Map(mask));
    call.steps.push_back("mask");
  }
  if (scores.causal) call.steps.push_back("causal");
  return call;
}

}  // namespace preheat::passes
