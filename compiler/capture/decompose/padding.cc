// Padding: with a constant, or with elements of the operand picked by index, and the gradients of these.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// Pairs (low, high) of the last dimensions, last one first; negative ones cut.
Value PadConstant(OpContext& c, Value x, const std::vector<Expr>& pairs, double value) {
  int rank = RankOf(x);
  if (pairs.size() % 2 != 0 || static_cast<int>(pairs.size() / 2) > rank) {
    c.Refuse("padding does not fit the rank");
    return {};
  }
  std::vector<Expr> low(rank, Expr(0)), high(rank, Expr(0));
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    int dim = rank - 1 - static_cast<int>(i);
    Expr cut_low = Expr::Max(Expr(0) - pairs[2 * i], 0), cut_high = Expr::Max(Expr(0) - pairs[2 * i + 1], 0);
    low[dim] = Expr::Max(pairs[2 * i], 0);
    high[dim] = Expr::Max(pairs[2 * i + 1], 0);
    if (cut_low == Expr(0) && cut_high == Expr(0)) continue;
    if (!x) return x;
    x = c.b.SliceDim(x, dim, cut_low, x.shape()[dim] - cut_low - cut_high);
  }
  if (!x) return x;
  return c.b.Emit(
      Op::kPad, {x},
      {{"low", low},
       {"high", high},
       {"value", std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(value, x.dtype()))}});
}

void ConstantPad(OpContext& c) { c.Set(PadConstant(c, c.Tensor("self"), c.Sizes("pad"), c.Double("value", 0))); }

// Indices 0..n-1 widened by `low` and `high` (or cut, where these are negative), folded back by the mode.
Value PadIndices(OpContext& c, const std::string& mode, const Expr& size, const Expr& low, const Expr& high) {
  Builder& b = c.b;
  Expr total = size + low + high;
  Value at = b.Sub(b.Iota(DType::kI64, {total}, 0), b.Size(low));
  Value last = b.Size(size - 1), zero = b.Size(0);
  if (mode == "replicate") return b.Binary(Op::kMin, b.Binary(Op::kMax, at, zero), last);
  if (mode == "circular") return b.Binary(Op::kMod, at, b.Size(size));
  Value folded = b.Unary(Op::kAbs, at);  // reflect: |i|, then from the other end
  return b.Sub(last, b.Unary(Op::kAbs, b.Sub(last, folded)));
}

Value PadByMode(OpContext& c, Value x, const std::string& mode, const std::vector<Expr>& pairs) {
  int rank = RankOf(x);
  if (pairs.size() % 2 != 0 || static_cast<int>(pairs.size() / 2) > rank) {
    c.Refuse("padding does not fit the rank");
    return {};
  }
  for (size_t i = 0; i < pairs.size() / 2 && x; ++i) {
    int64_t dim = rank - 1 - static_cast<int>(i);
    if (pairs[2 * i] == Expr(0) && pairs[2 * i + 1] == Expr(0)) continue;
    Value index = PadIndices(c, mode, x.shape()[dim], pairs[2 * i], pairs[2 * i + 1]);
    x = c.b.Emit(Op::kTake, {x, index}, {{"dim", dim}});
  }
  return x;
}

void Pad(OpContext& c) {
  std::string mode = c.Text("mode", "constant");
  if (mode == "constant") return c.Set(PadConstant(c, c.Tensor("self"), c.Sizes("pad"), c.Double("value", 0)));
  if (mode != "reflect" && mode != "replicate" && mode != "circular") return c.Refuse(mode);
  c.Set(PadByMode(c, c.Tensor("self"), mode, c.Sizes("pad")));
}
void ReflectionPad(OpContext& c) { c.Set(PadByMode(c, c.Tensor("self"), "reflect", c.Sizes("padding"))); }
void ReplicationPad(OpContext& c) { c.Set(PadByMode(c, c.Tensor("self"), "replicate", c.Sizes("padding"))); }

// --- Gradients: each element's gradient is added where it was picked ---

LowerFn PadGrad(const char* mode) {
  return [mode](OpContext& c) {
    Value g = c.Operand("grad_output", ComputeType(c.ResultType().dtype));
    std::vector<Expr> pairs = c.Sizes("padding");
    int rank = c.ResultType().rank();
    if (static_cast<int>(pairs.size() / 2) > rank || RankOf(g) != rank)
      return c.Refuse("padding does not fit the rank");
    for (size_t i = 0; i < pairs.size() / 2 && g; ++i) {
      int64_t dim = rank - 1 - static_cast<int>(i);
      if (pairs[2 * i] == Expr(0) && pairs[2 * i + 1] == Expr(0)) continue;
      std::vector<Expr> shape = g.shape();
      shape[dim] = c.ResultShape()[dim];
      Value index = PadIndices(c, mode, shape[dim], pairs[2 * i], pairs[2 * i + 1]);
      g = c.b.Emit(Op::kPutRows, {c.Fill(0, g.dtype(), shape), index, g},
                   {{"dim", dim}, {"reduce", std::string("add")}});
    }
    c.Set(g);
  };
}

}  // namespace

OpTable PaddingOps() {
  OpTable table = {{"aten.constant_pad_nd.default", ConstantPad}, {"aten.pad.default", Pad}};
  for (const char* name :
       {"aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default"}) {
    table.emplace_back(name, ReflectionPad);
  }
  for (const char* name :
       {"aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default"}) {
    table.emplace_back(name, ReplicationPad);
  }
  for (const char* name : {"aten.reflection_pad1d_backward.default", "aten.reflection_pad2d_backward.default",
                           "aten.reflection_pad3d_backward.default"}) {
    table.emplace_back(name, PadGrad("reflect"));
  }
  for (const char* name : {"aten.replication_pad1d_backward.default", "aten.replication_pad2d_backward.default",
                           "aten.replication_pad3d_backward.default"}) {
    table.emplace_back(name, PadGrad("replicate"));
  }
  return table;
}

}  // namespace preheat::decompose
