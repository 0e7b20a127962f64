// Gradients of normalizations. With n = (x - mean) / deviation and g the gradient by n, over the normalized
// elements: dx = (g - mean(g) - n mean(g n)) / deviation.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }
Value Compute(OpContext& c, Value x) { return x ? c.b.Cast(x, ComputeType(x.dtype())) : x; }

Value InputGrad(OpContext& c, Value g, Value normal, Value inverse, const std::vector<int64_t>& dims) {
  Builder& b = c.b;
  // One element is its own mean, and the gradient 0. Eager's is what its roundings leave, times a large deviation.
  if (CountOf(g, dims) == Expr(1)) c.Refuse("statistics of one element");
  Value inner = b.Sub(b.Sub(g, b.Mean(g, dims, true)), b.Mul(normal, b.Mean(b.Mul(g, normal), dims, true)));
  return b.Mul(inner, inverse);
}

Value SumTo(OpContext& c, Value x, const std::vector<int64_t>& dims, const std::vector<Expr>& shape) {
  return c.b.Reshape(dims.empty() ? x : c.b.Reduce(Op::kReduceSum, x, dims, false), shape);
}

std::vector<int64_t> DimsBetween(int from, int to) {
  std::vector<int64_t> dims;
  for (int64_t i = from; i < to; ++i) dims.push_back(i);
  return dims;
}

void LayerNormGrad(OpContext& c) {
  Value g = Compute(c, c.Tensor("grad_out")), x = Compute(c, c.Tensor("input"));
  Value mean = Compute(c, c.Tensor("mean")), inverse = Compute(c, c.Tensor("rstd"));
  Value weight = Compute(c, c.OptionalTensor("weight"));
  int rank = RankOf(x), over = static_cast<int>(c.Sizes("normalized_shape").size());
  if (over < 1 || over > rank) return c.Refuse("normalized_shape does not fit");
  Value normal = c.b.Mul(c.b.Sub(x, mean), inverse);
  std::vector<int64_t> inner = DimsBetween(rank - over, rank), outer = DimsBetween(0, rank - over);
  if (c.Wanted(0)) c.Set(0, InputGrad(c, weight ? c.b.Mul(g, weight) : g, normal, inverse, inner));
  if (c.Wanted(1)) c.Set(1, SumTo(c, c.b.Mul(g, normal), outer, c.ResultShape(1)));
  if (c.Wanted(2)) c.Set(2, SumTo(c, g, outer, c.ResultShape(2)));
}

void RmsNormGrad(OpContext& c) {
  Value g = Compute(c, c.Tensor("grad_out")), x = Compute(c, c.Tensor("input"));
  Value inverse = Compute(c, c.Tensor("rstd")), weight = Compute(c, c.OptionalTensor("weight"));
  int rank = RankOf(x), over = static_cast<int>(c.Sizes("normalized_shape").size());
  if (over < 1 || over > rank) return c.Refuse("normalized_shape does not fit");
  Value normal = c.b.Mul(x, inverse), weighted = weight ? c.b.Mul(g, weight) : g;
  std::vector<int64_t> inner = DimsBetween(rank - over, rank), outer = DimsBetween(0, rank - over);
  Value projected = c.b.Mul(normal, c.b.Mean(c.b.Mul(weighted, normal), inner, true));
  if (c.Wanted(0)) c.Set(0, c.b.Mul(c.b.Sub(weighted, projected), inverse));
  if (c.Wanted(1)) c.Set(1, SumTo(c, c.b.Mul(g, normal), outer, c.ResultShape(1)));
}

// `train` and `saved`: what the operator calls its flag and the deviation that the forward pass kept.
void BatchNormGradOf(OpContext& c, const char* train_name, const char* saved) {
  Value g = Compute(c, c.Tensor("grad_out")), x = Compute(c, c.Tensor("input"));
  Value weight = Compute(c, c.OptionalTensor("weight"));
  bool train = c.Bool(train_name, true);
  int rank = RankOf(x);
  if (rank < 2) return c.Refuse("fewer than two dimensions");
  Value mean = Compute(c, c.OptionalTensor(train ? "save_mean" : "running_mean"));
  Value spread = Compute(c, c.OptionalTensor(train ? saved : "running_var"));
  if (!mean || !spread) return c.Refuse("statistics are missing");
  Value inverse = train ? spread : c.b.Unary(Op::kRsqrt, c.b.Add(spread, c.Double("eps", 1e-5)));
  auto by_channel = [&](Value v) { return AlongDim(c.b, v, rank, 1); };
  Value normal = c.b.Mul(c.b.Sub(x, by_channel(mean)), by_channel(inverse));
  std::vector<int64_t> dims = DimsBetween(2, rank);
  dims.insert(dims.begin(), 0);
  // The weight is the same for all that a sum runs over, so two sums serve all three gradients.
  Value sum = c.b.Reduce(Op::kReduceSum, g, dims, false);
  Value projected = c.b.Reduce(Op::kReduceSum, c.b.Mul(g, normal), dims, false);
  if (c.Wanted(0)) {
    Value scale = by_channel(weight ? c.b.Mul(inverse, weight) : inverse);
    if (train) {
      const Expr count = CountOf(x, dims);
      Value mean_grad = by_channel(DivBySize(c.b, sum, count)), slope = by_channel(DivBySize(c.b, projected, count));
      c.Set(0, c.b.Mul(c.b.Sub(c.b.Sub(g, mean_grad), c.b.Mul(normal, slope)), scale));
    } else {
      c.Set(0, c.b.Mul(g, scale));
    }
  }
  if (c.Wanted(1)) c.Set(1, c.b.Reshape(projected, c.ResultShape(1)));
  if (c.Wanted(2)) c.Set(2, c.b.Reshape(sum, c.ResultShape(2)));
}

void BatchNormGrad(OpContext& c) { BatchNormGradOf(c, "train", "save_invstd"); }
void BatchNormUpdateGrad(OpContext& c) { BatchNormGradOf(c, "update", "save_var"); }

// Statistics are [n, groups]; x is seen as [n, groups, channels of a group, rest].
void GroupNormGrad(OpContext& c) {
  Value grad = Compute(c, c.Tensor("grad_out")), input = Compute(c, c.Tensor("input"));
  Value weight = Compute(c, c.OptionalTensor("weight"));
  int64_t groups = c.Int("group");
  if (RankOf(input) < 2 || groups < 1) return c.Refuse("fewer than two dimensions or no groups");
  Expr n = input.shape()[0], channels = input.shape()[1], rest = 1;
  for (int i = 2; i < RankOf(input); ++i) rest = rest * input.shape()[i];
  Expr per_group = Expr::FloorDiv(channels, groups);
  std::vector<Expr> grouped = {n, Expr(groups), per_group, rest};
  Value x = c.b.Reshape(input, grouped), g = c.b.Reshape(grad, grouped);
  auto statistic = [&](const char* name) {
    return c.b.Reshape(Compute(c, c.Tensor(name)), {n, Expr(groups), Expr(1), Expr(1)});
  };
  Value inverse = statistic("rstd"), normal = c.b.Mul(c.b.Sub(x, statistic("mean")), inverse);
  Value scaled = weight ? c.b.Mul(g, c.b.Reshape(weight, {Expr(1), Expr(groups), per_group, Expr(1)})) : g;
  if (c.Wanted(0)) c.Set(0, c.b.Reshape(InputGrad(c, scaled, normal, inverse, {2, 3}), input.shape()));
  if (c.Wanted(1)) c.Set(1, SumTo(c, c.b.Mul(g, normal), {0, 3}, {channels}));
  if (c.Wanted(2)) c.Set(2, SumTo(c, g, {0, 3}, {channels}));
}

}  // namespace

OpTable BackwardNormOps() {
  return {
      {"aten.native_layer_norm_backward.default", LayerNormGrad},
      {"aten.native_batch_norm_backward.default", BatchNormGrad},
      {"aten.batch_norm_backward.default", BatchNormUpdateGrad},
      {"aten.native_group_norm_backward.default", GroupNormGrad},
      {"aten._fused_rms_norm_backward.default", RmsNormGrad},
  };
}

}  // namespace preheat::decompose
