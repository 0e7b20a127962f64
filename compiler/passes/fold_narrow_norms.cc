#include "compiler/passes/fold_narrow_norms.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/users.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

// A convolution, widened, times a vector along its channels, plus and minus others.
struct Norm {
  const Node* conv = nullptr;
  Value scale;
  std::vector<std::pair<Value, bool>> shifts;  // vectors; true: subtracted
  Value end;                                   // the last of these operators' result
};

// The vector along dimension 1 that is broadcast to give `v`; null when `v` is something else.
Value ChannelVector(Value v) {
  if (v.node->op() != Op::kBroadcast) return {};
  Value vector = v.node->operand(0);
  for (int i = 0; i < vector.type().rank(); ++i) {
    if (i != 1 && vector.shape()[i] != Expr(1)) return {};
  }
  return vector.type().rank() >= 3 && vector.shape()[1] == v.shape()[1] ? vector : Value{};
}

bool IsNarrowConv(Value v, const Users& users) {
  return v.node->op() == Op::kConv && v.node->Int("transposed") == 0 && users.Only(v) != nullptr &&
         (v.dtype() == DType::kF16 || v.dtype() == DType::kBF16);
}

bool Pays(const Node& conv) {
  const std::vector<Expr>& filter = conv.operand(1).shape();
  for (size_t i = 2; i < filter.size(); ++i) {
    if (filter[i] != Expr(1)) return true;
  }
  const auto weights = conv.operand(1).type().NumElements().constant();
  const auto results = conv.results()[0].NumElements().constant();
  return weights && results && *weights <= *results / 2;
}

// The other operand of a node with two, and whether `one` is the first.
std::pair<Value, bool> Other(const Node& node, Value one) {
  const bool first = node.operand(0) == one;
  return {node.operand(first ? 1 : 0), first};
}

std::optional<Norm> Find(const Node& product, const Users& users) {
  if (product.op() != Op::kMul || product.results()[0].dtype != DType::kF32) return std::nullopt;
  for (Value wide : product.operands()) {
    if (wide.node->op() != Op::kCast || users.Only(wide) == nullptr) continue;
    const Value conv = wide.node->operand(0), scale = ChannelVector(Other(product, wide).first);
    if (!scale || !IsNarrowConv(conv, users) || !Pays(*conv.node)) continue;
    Norm norm{conv.node, scale, {}, product.result()};
    while (const Node* next = users.Only(norm.end)) {
      if (next->op() != Op::kAdd && next->op() != Op::kSub) break;
      const auto [other, first] = Other(*next, norm.end);
      const Value vector = ChannelVector(other);
      if (!vector || (next->op() == Op::kSub && !first)) break;
      norm.shifts.push_back({vector, next->op() == Op::kSub});
      norm.end = next->result();
    }
    return norm;
  }
  return std::nullopt;
}

Value Emit(const Norm& norm, rewrite::Rebuild& r) {
  Builder& b = r.builder();
  const DType narrow = norm.conv->results()[0].dtype;
  Value filter = r.Map(norm.conv->operand(1)), scale = r.Map(norm.scale);
  std::vector<Expr> by_filter(filter.type().rank(), Expr(1));
  by_filter[0] = filter.shape()[0];
  Value wide = b.Cast(filter, DType::kF32);
  Value scaled = b.Cast(b.Mul(wide, b.BroadcastTo(b.Reshape(scale, by_filter), wide.shape())), narrow);
  Value conv = b.Cast(b.Emit(Op::kConv, {r.Map(norm.conv->operand(0)), scaled}, norm.conv->attrs()), DType::kF32);
  Value shift;
  for (const auto& [vector, subtracted] : norm.shifts) {
    Value next = r.Map(vector);
    if (!shift) {
      shift = subtracted ? b.Unary(Op::kNeg, next) : next;
    } else {
      shift = subtracted ? b.Sub(shift, next) : b.Add(shift, next);
    }
  }
  if (!shift) return conv;
  return b.Add(conv, b.BroadcastTo(b.Cast(b.Cast(shift, narrow), DType::kF32), conv.shape()));
}

}  // namespace

absl::StatusOr<ir::Graph> FoldNarrowNorms(const ir::Graph& graph) {
  Users users(graph);
  std::map<const Node*, Norm> norms;  // by the node of `end`
  for (const Node& node : graph.nodes()) {
    if (std::optional<Norm> norm = Find(node, users)) norms.emplace(norm->end.node, *norm);
  }
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const auto norm = norms.find(&node);
    return norm != norms.end() ? Emit(norm->second, r) : Value();
  });
}

}  // namespace preheat::passes
