// Attention as two matrix products around a softmax.

#include "compiler/capture/decompose/attention.h"

#include <cmath>
#include <limits>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/products.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

Value Compute(OpContext& c, const char* name) {
  Value x = c.Tensor(name);
  return x ? c.b.Cast(x, ComputeType(x.dtype())) : x;
}

// Each head of k or v serves a group of heads of q: [b, h, s, e] -> [b, h*groups, s, e].
Value RepeatHeads(OpContext& c, Value x, const Expr& heads) {
  if (RankOf(x) < 3) return x;
  int64_t dim = RankOf(x) - 3;
  const Expr own = x.shape()[dim];
  if (own == heads) return x;
  Expr groups = Expr::FloorDiv(heads, own);
  std::vector<Expr> merged = x.shape(), split = x.shape();
  merged[dim] = heads;
  split.insert(split.begin() + dim + 1, groups);
  return c.b.Reshape(c.b.BroadcastTo(c.b.Unsqueeze(x, dim + 1), split), merged);
}

Value ScaleOf(OpContext& c, Value q) {
  DType dtype = q.dtype();
  if (c.Has("scale")) return c.Fill(c.Double("scale", 1), dtype);
  const Expr& width = q.shape().back();
  if (std::optional<int64_t> e = width.constant()) return c.Fill(1 / std::sqrt(static_cast<double>(*e)), dtype);
  return c.b.Unary(Op::kRsqrt, c.SizeAs(width, dtype));
}

// Position j of a key may be seen from position i of a query: j <= i.
Value Causal(OpContext& c, Value scores) {
  std::vector<Expr> matrix(scores.shape().end() - 2, scores.shape().end());
  Value row = c.b.Iota(DType::kI64, matrix, 0), column = c.b.Iota(DType::kI64, matrix, 1);
  return c.b.BroadcastTo(c.b.Emit(Op::kLe, {column, row}), scores.shape());
}

Value Mask(OpContext& c, Value scores, Value mask) {
  if (!scores || !mask) return scores;
  if (mask.dtype() != DType::kBool) return c.b.Add(scores, c.b.Cast(mask, scores.dtype()));
  return c.b.Where(mask, scores, Like(c.b, scores, -std::numeric_limits<double>::infinity()));
}

void ScaledDotProduct(OpContext& c) {
  Attention a = ReadAttention(c);
  c.Set(0, MatMulBroadcast(c.b, a.weights, a.v));
  // The row sums that a fused kernel keeps for its gradient.
  if (!c.Wanted(1) || !a.scores) return;
  int64_t last = RankOf(a.scores) - 1;
  Value max = c.b.Reduce(Op::kReduceMax, a.scores, {last}, true);
  Value sum = c.b.Reduce(Op::kReduceSum, c.b.Unary(Op::kExp, c.b.Sub(a.scores, max)), {last}, false);
  c.Set(1, c.b.Add(c.b.Unary(Op::kLog, sum), c.b.Squeeze(max, last)));
}

}  // namespace

Attention ReadAttention(OpContext& c) {
  Attention a{.q = Compute(c, "query"),
              .k = Compute(c, "key"),
              .v = Compute(c, "value"),
              .scale = {},
              .scores = {},
              .weights = {}};
  if (c.Double("dropout_p", 0) != 0) c.Refuse("dropout");
  if (RankOf(a.q) < 2 || RankOf(a.k) < 2 || RankOf(a.v) < 2) c.Refuse("fewer than two dimensions");
  if (!c.b.status().ok()) return a;
  // Whether or not `enable_gqa` says so: the fused kernel's own operators tell by the shapes alone.
  if (RankOf(a.q) >= 3) {
    const Expr heads = a.q.shape()[RankOf(a.q) - 3];
    a.k = RepeatHeads(c, a.k, heads);
    a.v = RepeatHeads(c, a.v, heads);
  }
  a.scale = ScaleOf(c, a.q);
  Value products = MatMulBroadcast(c.b, a.q, c.b.Transpose(a.k, -2, -1));
  a.scores = c.b.Mul(products, a.scale);
  Value mask = c.OptionalTensor("attn_mask");
  bool causal = c.Bool("is_causal", false);
  a.scores = Mask(c, a.scores, mask);
  if (causal && a.scores) a.scores = Mask(c, a.scores, Causal(c, a.scores));
  if (a.scores) a.weights = Softmax(c.b, a.scores, RankOf(a.scores) - 1, static_cast<bool>(mask));
  return a;
}

OpTable AttentionOps() {
  return {
      {"aten.scaled_dot_product_attention.default", ScaledDotProduct},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default", ScaledDotProduct},
  };
}

}  // namespace preheat::decompose
