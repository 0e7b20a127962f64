// Normalizations. Statistics are taken in two passes in the compute type (f32 for 16-bit floats): formulas.h. Batch
// norm is one multiplication and one addition by channel, so that its scale and shift can be folded where they are
// known beforehand. In training what is one number a channel is f64 from the sums on where that costs nothing
// (OpContext::wide): the scale is then rounded once, where eager's and that of f32 are rounded several times.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }
Value Compute(OpContext& c, Value x) { return x ? c.b.Cast(x, ComputeType(x.dtype())) : x; }

std::vector<int64_t> AllDimsBut(int rank, int64_t kept) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != kept) dims.push_back(i);
  }
  return dims;
}

// 1 / sqrt(variance + eps)
Value InverseDeviation(OpContext& c, Value variance, double eps) {
  return c.b.Unary(Op::kRsqrt, c.b.Add(variance, eps));
}

// x * scale + shift by channel, where scale = weight / deviation and shift = bias - mean * scale: vectors. `inverse`
// and `mean` may be wider than x: what makes up for the rounding of scale is then in shift.
Value ScaleAndShift(OpContext& c, Value x, Value mean, Value inverse, Value weight, Value bias) {
  if (!x || !mean || !inverse) return {};
  const DType wide = inverse.dtype();
  auto widened = [&](Value v) { return c.b.Cast(v, wide); };
  Value scale = c.b.Cast(weight ? c.b.Mul(inverse, widened(weight)) : inverse, x.dtype());
  Value shift = c.b.Mul(mean, widened(scale));
  shift = c.b.Cast(bias ? c.b.Sub(widened(bias), shift) : c.b.Unary(Op::kNeg, shift), x.dtype());
  int rank = RankOf(x);
  return c.b.Add(c.b.Mul(x, AlongDim(c.b, scale, rank, 1)), AlongDim(c.b, shift, rank, 1));
}

// --- Batch norm ---

struct BatchNorm {
  Value x, weight, bias, running_mean, running_var;  // in the compute type; null where absent
  Value mean, variance;                              // of the batch, vectors; only in training
  Value inverse;                                     // 1 / deviation of the batch
  Value out;
};

BatchNorm Normalize(OpContext& c, bool training) {
  BatchNorm n;
  double eps = c.Double("eps", 1e-5);
  n.x = Compute(c, c.Tensor("input"));
  n.weight = Compute(c, c.OptionalTensor("weight"));
  n.bias = Compute(c, c.OptionalTensor("bias"));
  n.running_mean = Compute(c, c.OptionalTensor("running_mean"));
  n.running_var = Compute(c, c.OptionalTensor("running_var"));
  if (RankOf(n.x) < 2) {
    c.Refuse("fewer than two dimensions");
    return n;
  }
  if (!training) {
    if (!n.running_mean || !n.running_var) c.Refuse("no running statistics outside training");
    n.inverse = InverseDeviation(c, n.running_var, eps);
    n.out = ScaleAndShift(c, n.x, n.running_mean, n.inverse, n.weight, n.bias);
    return n;
  }
  const DType dtype = n.x.dtype(), wide = c.wide() ? DType::kF64 : dtype;
  Moments moments = MeanAndVariance(c.b, n.x, AllDimsBut(RankOf(n.x), 1), wide);
  const std::vector<Expr> channels = {n.x.shape()[1]};
  Value mean = c.b.Reshape(moments.mean, channels), variance = c.b.Reshape(moments.variance, channels);
  Value inverse = InverseDeviation(c, variance, eps);
  n.out = ScaleAndShift(c, n.x, mean, inverse, n.weight, n.bias);
  n.mean = c.b.Cast(mean, dtype);
  n.variance = c.b.Cast(variance, dtype);
  n.inverse = c.b.Cast(inverse, dtype);
  return n;
}

// (1 - momentum) * running + momentum * batch; the variance is the unbiased one.
Value Updated(OpContext& c, Value running, Value batch, double momentum) {
  return c.b.Add(c.b.Mul(running, 1 - momentum), c.b.Mul(batch, momentum));
}
Value Unbiased(OpContext& c, const BatchNorm& n) {
  Expr count = CountOf(n.x, AllDimsBut(RankOf(n.x), 1));
  if (std::optional<int64_t> k = count.constant())
    return c.b.Mul(n.variance, static_cast<double>(*k) / static_cast<double>(*k - 1));
  DType dtype = n.variance ? n.variance.dtype() : DType::kF32;
  return c.b.Mul(n.variance, c.b.Div(c.SizeAs(count, dtype), c.SizeAs(count - 1, dtype)));
}

// The statistics that were used. Outside training nothing is saved on a CPU, whose declared results are empty.
void SetSaved(OpContext& c, const BatchNorm& n, bool training) {
  const Value saved[] = {training ? n.mean : n.running_mean, n.inverse};
  for (int i : {1, 2}) {
    if (!c.Wanted(i)) continue;
    const bool declared = c.ResultShape(i) != std::vector<Expr>{Expr(0)};
    c.Set(i, declared ? saved[i - 1] : c.Fill(0, c.ResultType(i).dtype, c.ResultShape(i)));
  }
}

void BatchNormOp(OpContext& c) {
  bool training = c.Bool("training", false);
  if (training && c.Has("running_mean")) return c.Refuse("running statistics are updated in place");
  BatchNorm n = Normalize(c, training);
  c.Set(0, n.out);
  SetSaved(c, n, training);
}
void BatchNormNoTraining(OpContext& c) {
  BatchNorm n = Normalize(c, false);
  c.Set(0, n.out);
  SetSaved(c, n, false);
}
void BatchNormNoStats(OpContext& c) {
  BatchNorm n = Normalize(c, true);
  c.Set(0, n.out);
  SetSaved(c, n, true);
}
void BatchNormFunctional(OpContext& c) {
  bool training = c.Bool("training", true);
  double momentum = c.Double("momentum", 0.1);
  BatchNorm n = Normalize(c, training);
  c.Set(0, n.out);
  SetSaved(c, n, training);
  if (c.Wanted(3)) c.Set(3, training ? Updated(c, n.running_mean, n.mean, momentum) : n.running_mean);
  if (c.Wanted(4)) c.Set(4, training ? Updated(c, n.running_var, Unbiased(c, n), momentum) : n.running_var);
}

// Results: output, the batch's statistics, nothing that a device's library would keep, and the new running ones.
void BatchNormWithUpdate(OpContext& c) {
  double momentum = c.Double("momentum", 0.1);
  BatchNorm n = Normalize(c, true);
  c.Set(0, n.out);
  SetSaved(c, n, true);
  if (c.Wanted(3)) c.Set(3, c.Fill(0, c.ResultType(3).dtype, c.ResultShape(3)));
  if (c.Wanted(4)) c.Set(4, Updated(c, n.running_mean, n.mean, momentum));
  if (c.Wanted(5)) c.Set(5, Updated(c, n.running_var, Unbiased(c, n), momentum));
}

// --- Layer, group, instance and RMS norm ---

Value Affine(OpContext& c, Value x, Value weight, Value bias) {
  if (weight) x = c.b.Mul(x, weight);
  return bias ? c.b.Add(x, bias) : x;
}

void LayerNorm(OpContext& c) {
  Value x = Compute(c, c.Tensor("input"));
  int rank = RankOf(x), over = static_cast<int>(c.Sizes("normalized_shape").size());
  if (over < 1 || over > rank) return c.Refuse("normalized_shape does not fit");
  std::vector<int64_t> dims;
  for (int64_t i = rank - over; i < rank; ++i) dims.push_back(i);
  Moments m = MeanAndVariance(c.b, x, dims);
  Value inverse = InverseDeviation(c, m.variance, c.Double("eps", 1e-5));
  Value normal = c.b.Mul(m.centered, inverse);
  c.Set(0, Affine(c, normal, Compute(c, c.OptionalTensor("weight")), Compute(c, c.OptionalTensor("bias"))));
  c.Set(1, m.mean);
  c.Set(2, inverse);
}

// Channels in groups: [n, c, ...] is seen as [n, groups, rest].
void GroupNorm(OpContext& c) {
  Value x = Compute(c, c.Tensor("input"));
  int64_t groups = c.Int(c.Arg("group") != nullptr ? "group" : "num_groups");
  if (RankOf(x) < 2 || groups < 1) return c.Refuse("fewer than two dimensions or no groups");
  Expr batch = x.shape()[0], rest = Expr::FloorDiv(x.shape()[1], groups);
  for (int i = 2; i < RankOf(x); ++i) rest = rest * x.shape()[i];
  Value grouped = c.b.Reshape(x, {batch, Expr(groups), rest});
  Moments m = MeanAndVariance(c.b, grouped, {2});
  Value inverse = InverseDeviation(c, m.variance, c.Double("eps", 1e-5));
  Value normal = c.b.Reshape(c.b.Mul(m.centered, inverse), x.shape());
  Value weight = Compute(c, c.OptionalTensor("weight")), bias = Compute(c, c.OptionalTensor("bias"));
  c.Set(0, Affine(c, normal, AlongDim(c.b, weight, RankOf(x), 1), AlongDim(c.b, bias, RankOf(x), 1)));
  if (c.Wanted(1)) c.Set(1, c.b.Reshape(m.mean, c.ResultShape(1)));
  if (c.Wanted(2)) c.Set(2, c.b.Reshape(inverse, c.ResultShape(2)));
}

void InstanceNorm(OpContext& c) {
  if (!c.Bool("use_input_stats", true)) {
    BatchNorm n = Normalize(c, false);
    return c.Set(n.out);
  }
  if (c.Has("running_mean")) return c.Refuse("running statistics are updated in place");
  Value x = Compute(c, c.Tensor("input"));
  int rank = RankOf(x);
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < rank; ++i) dims.push_back(i);
  if (dims.empty()) return c.Refuse("fewer than three dimensions");
  Moments m = MeanAndVariance(c.b, x, dims);
  Value normal = c.b.Mul(m.centered, InverseDeviation(c, m.variance, c.Double("eps", 1e-5)));
  Value weight = Compute(c, c.OptionalTensor("weight")), bias = Compute(c, c.OptionalTensor("bias"));
  c.Set(Affine(c, normal, AlongDim(c.b, weight, rank, 1), AlongDim(c.b, bias, rank, 1)));
}

void RmsNorm(OpContext& c) {
  Value x = Compute(c, c.Tensor("input"));
  int rank = RankOf(x), over = static_cast<int>(c.Sizes("normalized_shape").size());
  if (over < 1 || over > rank) return c.Refuse("normalized_shape does not fit");
  std::vector<int64_t> dims;
  for (int64_t i = rank - over; i < rank; ++i) dims.push_back(i);
  double smallest = x.dtype() == DType::kF64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;  // of the compute type
  Value inverse = InverseDeviation(c, c.b.Mean(c.b.Mul(x, x), dims, true), c.Double("eps", smallest));
  c.Set(0, Affine(c, c.b.Mul(x, inverse), Compute(c, c.OptionalTensor("weight")), Value{}));
  c.Set(1, inverse);
}

}  // namespace

OpTable NormOps() {
  return {
      {"aten.batch_norm.default", BatchNormOp},
      {"aten.native_batch_norm.default", BatchNormOp},
      {"aten._native_batch_norm_legit.default", BatchNormOp},
      {"aten._native_batch_norm_legit.no_stats", BatchNormNoStats},
      {"aten._native_batch_norm_legit_no_training.default", BatchNormNoTraining},
      {"aten._native_batch_norm_legit_functional.default", BatchNormFunctional},
      {"aten._batch_norm_with_update_functional.default", BatchNormWithUpdate},
      {"aten.layer_norm.default", LayerNorm},
      {"aten.native_layer_norm.default", LayerNorm},
      {"aten.group_norm.default", GroupNorm},
      {"aten.native_group_norm.default", GroupNorm},
      {"aten.instance_norm.default", InstanceNorm},
      {"aten.rms_norm.default", RmsNorm},
      {"aten._fused_rms_norm.default", RmsNorm},
  };
}

}  // namespace preheat::decompose
