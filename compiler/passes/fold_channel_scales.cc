#include "compiler/passes/fold_channel_scales.h"

#include <optional>
#include <vector>

#include "compiler/passes/users.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

// frozen[id]: the node's results do not change between two runs.
std::vector<bool> FrozenNodes(const ir::Graph& graph) {
  std::vector<bool> frozen;
  for (const Node& node : graph.nodes()) {
    bool is = ir::Info(node.op()).effects == ir::Effects::kPure;
    if (node.op() == Op::kInput) is = graph.inputs()[node.Int("index")].frozen;
    for (const Value& operand : node.operands()) is = is && frozen[operand.node->id()];
    frozen.push_back(is);
  }
  return frozen;
}

// The value along dimension 1 that is broadcast to give `v`; null when `v` is something else.
Value ChannelVector(Value v) {
  if (v.node->op() == Op::kBroadcast) v = v.node->operand(0);
  for (int i = 0; i < v.type().rank(); ++i) {
    if (i != 1 && v.shape()[i] != Expr(1)) return {};
  }
  return v.type().rank() >= 3 ? v : Value{};
}

// Is scaling the filter cheaper than scaling the result? If neither it nor the scale changes, it costs nothing;
// otherwise the result must be clearly larger, and both sizes known.
bool Pays(const Node& conv, Value scale, const std::vector<bool>& frozen) {
  if (frozen[conv.operand(1).node->id()] && frozen[scale.node->id()]) return true;
  auto filter = conv.operand(1).type().NumElements().constant();
  auto result = conv.results()[0].NumElements().constant();
  return filter && result && *filter <= *result / 4;
}

struct Scaled {
  const Node* conv;
  Value bias;  // null without; [1, channels, 1...], as `scale`
  Value scale;
};

// The operand of a commutative operator that is not `one`.
Value Other(const Node& node, Value one) { return node.operand(node.operand(0) == one ? 1 : 0); }

bool IsPlainConv(Value v, const Users& users) {
  return v.node->op() == Op::kConv && v.node->Int("transposed") == 0 && users.Only(v) != nullptr &&
         ir::IsFloat(v.dtype());
}

// Does `product` multiply a convolution, perhaps with a bias, by channels?
std::optional<Scaled> Find(const Node& product, const Users& users, const std::vector<bool>& frozen) {
  if (product.op() != Op::kMul || product.operand(0) == product.operand(1)) return std::nullopt;
  auto fits = [](Value vector, Value of) { return vector && vector.shape()[1] == of.shape()[1]; };
  for (Value scaled : product.operands()) {
    Value scale = ChannelVector(Other(product, scaled));
    if (!fits(scale, scaled)) continue;
    if (IsPlainConv(scaled, users) && Pays(*scaled.node, scale, frozen)) return Scaled{scaled.node, {}, scale};
    if (scaled.node->op() != Op::kAdd || users.Only(scaled) == nullptr) continue;
    for (Value conv : scaled.node->operands()) {
      Value bias = ChannelVector(Other(*scaled.node, conv));
      if (IsPlainConv(conv, users) && fits(bias, scaled) && Pays(*conv.node, scale, frozen)) {
        return Scaled{conv.node, bias, scale};
      }
    }
  }
  return std::nullopt;
}

Value Emit(const Scaled& found, rewrite::Rebuild& r) {
  Builder& b = r.builder();
  Value x = r.Map(found.conv->operand(0)), w = r.Map(found.conv->operand(1)), scale = r.Map(found.scale);
  std::vector<Expr> by_filter(w.type().rank(), Expr(1));
  by_filter[0] = w.shape()[0];
  Value conv = b.Emit(Op::kConv, {x, b.Mul(w, b.Reshape(scale, by_filter))}, found.conv->attrs());
  return found.bias ? b.Add(conv, b.Mul(r.Map(found.bias), scale)) : conv;
}

}  // namespace

absl::StatusOr<ir::Graph> FoldChannelScales(const ir::Graph& graph) {
  Users users(graph);
  std::vector<bool> frozen = FrozenNodes(graph);
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const std::optional<Scaled> found = Find(node, users, frozen);
    return found ? Emit(*found, r) : Value();
  });
}

}  // namespace preheat::passes
