// Gradients of activations, of softmax and of losses: an elementwise formula in the compute type. Gradients of
// norms, of pooling, convolution and attention, and of indexing stand in backward_norm.cc, backward_window.cc and
// backward_index.cc.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/losses.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

DType GradType(OpContext& c) { return ComputeType(c.ResultType().dtype); }

using Formula = Value (*)(OpContext&, Value grad, Value x);
LowerFn Gradient(Formula formula, const char* operand = "self") {
  return [formula, operand](OpContext& c) {
    DType dtype = GradType(c);
    Value grad = c.Operand("grad_output", dtype), x = c.Operand(operand, dtype);
    c.Set(formula(c, grad, x));
  };
}

Value Zero(OpContext& c, Value like) { return Like(c.b, like, 0); }
Value Less(OpContext& c, Value x, double bound) { return c.b.Binary(Op::kLt, x, Scalar(bound)); }
Value LessEqual(OpContext& c, Value x, double bound) { return c.b.Binary(Op::kLe, x, Scalar(bound)); }
Value Greater(OpContext& c, Value x, double bound) { return c.b.Binary(Op::kGt, x, Scalar(bound)); }
Value OneMinus(OpContext& c, Value x) { return c.b.Sub(Like(c.b, x, 1), x); }

Value Threshold(OpContext& c, Value g, Value x) {
  Value limit = c.Operand("threshold", x ? x.dtype() : DType::kF32);
  return c.b.Where(c.b.Binary(Op::kLe, x, limit), Zero(c, g), g);
}
Value SigmoidGrad(OpContext& c, Value g, Value y) { return c.b.Mul(g, c.b.Mul(OneMinus(c, y), y)); }
Value TanhGrad(OpContext& c, Value g, Value y) { return c.b.Mul(g, OneMinus(c, c.b.Mul(y, y))); }
Value SiluGrad(OpContext& c, Value g, Value x) {
  Value s = Sigmoid(c.b, x);
  return c.b.Mul(c.b.Mul(g, s), c.b.Add(c.b.Mul(x, OneMinus(c, s)), 1.0));
}

// d/dx of x/2 (1 + tanh(k (x + a x^3)))
Value GeluTanhGrad(OpContext& c, Value g, Value x) {
  Builder& b = c.b;
  const double k = M_SQRT2 * M_2_SQRTPI * 0.5, a = 0.044715;
  Value square = b.Mul(x, x);
  Value t = b.Unary(Op::kTanh, b.Mul(b.Add(x, b.Mul(b.Mul(square, x), a)), k));
  Value left = b.Mul(b.Add(t, 1.0), 0.5);
  Value slope = b.Mul(b.Add(b.Mul(square, 3 * a), 1.0), k);
  Value right = b.Mul(b.Mul(b.Mul(x, 0.5), OneMinus(c, b.Mul(t, t))), slope);
  return b.Mul(g, b.Add(left, right));
}
Value GeluGrad(OpContext& c, Value g, Value x) {
  Builder& b = c.b;
  if (c.Text("approximate", "none") == "tanh") return GeluTanhGrad(c, g, x);
  Value cdf = b.Mul(b.Add(b.Unary(Op::kErf, b.Mul(x, M_SQRT1_2)), 1.0), 0.5);
  Value pdf = b.Mul(b.Unary(Op::kExp, b.Mul(b.Mul(x, x), -0.5)), M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return b.Mul(g, b.Add(cdf, b.Mul(x, pdf)));
}

Value SoftplusGrad(OpContext& c, Value g, Value x) {
  Value scaled = c.b.Mul(x, c.Double("beta", 1));
  return c.b.Where(Greater(c, scaled, c.Double("threshold", 20)), g, c.b.Mul(g, Sigmoid(c.b, scaled)));
}
Value HardswishGrad(OpContext& c, Value g, Value x) {
  Value middle = c.b.Mul(g, c.b.Add(c.b.Binary(Op::kDiv, x, Scalar(3.0)), 0.5));
  return c.b.Where(Less(c, x, -3), Zero(c, g), c.b.Where(LessEqual(c, x, 3), middle, g));
}
Value HardsigmoidGrad(OpContext& c, Value g, Value x) {
  Value inside = c.b.Binary(Op::kAnd, Greater(c, x, -3), Less(c, x, 3));
  return c.b.Where(inside, c.b.Binary(Op::kDiv, g, Scalar(6.0)), Zero(c, g));
}
Value HardtanhGrad(OpContext& c, Value g, Value x) {
  Value outside = c.b.Binary(Op::kOr, LessEqual(c, x, c.Double("min_val", -1)),
                             c.b.Binary(Op::kGe, x, Scalar(c.Double("max_val", 1))));
  return c.b.Where(outside, Zero(c, g), g);
}
Value LeakyReluGrad(OpContext& c, Value g, Value x) {
  return c.b.Where(Greater(c, x, 0), g, c.b.Mul(g, c.Double("negative_slope", 0.01)));
}
Value EluGrad(OpContext& c, Value g, Value x) {
  double alpha = c.Double("alpha", 1), scale = c.Double("scale", 1), inner = c.Double("input_scale", 1);
  Value negative = c.Bool("is_result", false)
                       ? c.b.Mul(c.b.Mul(g, inner), c.b.Add(x, alpha * scale))
                       : c.b.Mul(c.b.Mul(g, inner * alpha * scale), c.b.Unary(Op::kExp, c.b.Mul(x, inner)));
  return c.b.Where(LessEqual(c, x, 0), negative, c.b.Mul(g, scale));
}
Value LogSigmoidGrad(OpContext& c, Value g, Value x) { return c.b.Mul(g, Sigmoid(c.b, c.b.Unary(Op::kNeg, x))); }
Value MishGrad(OpContext& c, Value g, Value x) {
  Value t = c.b.Unary(Op::kTanh, Softplus(c.b, x, 1, 20)), s = Sigmoid(c.b, x);
  return c.b.Mul(g, c.b.Add(t, c.b.Mul(c.b.Mul(x, s), OneMinus(c, c.b.Mul(t, t)))));
}

Value LogitGrad(OpContext& c, Value g, Value x) {
  Value slope = c.b.Mul(x, OneMinus(c, x));
  Value inside = c.b.Div(g, slope);
  if (!c.Has("eps")) {
    Value outside = c.b.Binary(Op::kOr, Less(c, x, 0), Greater(c, x, 1));
    return c.b.Where(outside, Like(c.b, g, NAN), inside);
  }
  double eps = c.Double("eps", 0);
  Value outside =
      c.b.Binary(Op::kOr, c.b.Binary(Op::kLt, x, Like(c.b, x, eps)), c.b.Binary(Op::kGt, x, Like(c.b, x, 1 - eps)));
  return c.b.Where(outside, Zero(c, g), inside);
}

// Softshrink's and hardshrink's: nothing passes near zero.
LowerFn ShrinkGrad(const char* grad) {
  return [grad](OpContext& c) {
    DType dtype = GradType(c);
    Value g = c.Operand(grad, dtype), x = c.Operand("self", dtype);
    double lambda = c.Double("lambd", 0.5);
    Value inside = c.b.Binary(Op::kAnd, c.b.Binary(Op::kGe, x, Scalar(-lambda)), LessEqual(c, x, lambda));
    c.Set(c.b.Where(inside, Zero(c, g), g));
  };
}

// Of a * sigmoid(b), the halves of a dimension.
void GluGrad(OpContext& c) {
  DType dtype = GradType(c);
  Value g = c.Operand("grad_output", dtype), x = c.Operand("self", dtype);
  if (!x || !g || x.type().rank() == 0) return c.Refuse("a 0-d tensor");
  int64_t dim = c.Wrap(c.Int("dim", -1), x.type().rank());
  const Expr half = g.shape()[dim];
  Value a = c.b.SliceDim(x, dim, 0, half), s = Sigmoid(c.b, c.b.SliceDim(x, dim, half, half));
  Value first = c.b.Mul(s, g), second = c.b.Mul(c.b.Mul(first, OneMinus(c, s)), a);
  c.Set(c.b.Concat({first, second}, dim));
}

void PreluGrad(OpContext& c) {
  DType dtype = ComputeType(c.ResultType(0).dtype);
  Value g = c.Operand("grad_output", dtype), x = c.Operand("self", dtype), weight = c.Operand("weight", dtype);
  Value positive = Greater(c, x, 0);
  if (c.Wanted(0)) c.Set(0, c.b.Where(positive, g, c.b.Mul(weight, g)));
  if (c.Wanted(1)) c.Set(1, c.b.Where(positive, Zero(c, g), c.b.Mul(x, g)));
}

// --- Softmax: `output` is the forward result ---

template <typename Formula>
void AlongDim(OpContext& c, const Formula& formula) {
  DType dtype = GradType(c);
  Value g = c.Operand("grad_output", dtype), y = c.Operand("output", dtype);
  if (!y || y.type().rank() == 0) return c.Refuse("a 0-d tensor");
  c.Set(formula(g, y, c.Wrap(c.Int("dim"), y.type().rank())));
}
void SoftmaxGrad(OpContext& c) {
  AlongDim(c, [&](Value g, Value y, int64_t dim) {
    Value weighted = c.b.Mul(g, y);
    return c.b.Sub(weighted, c.b.Mul(y, c.b.Reduce(Op::kReduceSum, weighted, {dim}, true)));
  });
}
void LogSoftmaxGrad(OpContext& c) {
  AlongDim(c, [&](Value g, Value y, int64_t dim) {
    return c.b.Sub(g, c.b.Mul(c.b.Unary(Op::kExp, y), c.b.Reduce(Op::kReduceSum, g, {dim}, true)));
  });
}

// --- Losses ---

// The incoming gradient, spread over the elements when the loss was a mean.
Value LossGrad(OpContext& c, Value g, Value x) {
  if (!x || ReductionOf(c) != Reduction::kMean) return g;
  return DivBySize(c.b, g, x.type().NumElements());
}
Value MseGrad(OpContext& c, Value g, Value x) {
  Value y = c.Operand("target", x ? x.dtype() : DType::kF32);
  return c.b.Mul(c.b.Mul(c.b.Sub(x, y), 2.0), LossGrad(c, g, x));
}
Value SmoothL1Grad(OpContext& c, Value g, Value x) {
  double beta = c.Double("beta", 1);
  Value d = c.b.Sub(x, c.Operand("target", x ? x.dtype() : DType::kF32));
  Value slope = c.b.Unary(Op::kSign, d);
  if (beta > 0) {
    Value near = Less(c, c.b.Unary(Op::kAbs, d), beta);
    slope = c.b.Where(near, c.b.Binary(Op::kDiv, d, Scalar(beta)), slope);
  }
  return c.b.Mul(slope, LossGrad(c, g, x));
}
Value HuberGrad(OpContext& c, Value g, Value x) {
  double delta = c.Double("delta", 1);
  Value d = c.b.Sub(x, c.Operand("target", x ? x.dtype() : DType::kF32));
  Value slope = Clamp(c.b, d, Like(c.b, d, -delta), Like(c.b, d, delta));
  return c.b.Mul(slope, LossGrad(c, g, x));
}

Value SoftMarginGrad(OpContext& c, Value g, Value x) {
  Value y = c.Operand("target", x ? x.dtype() : DType::kF32);
  Value z = c.b.Unary(Op::kExp, c.b.Unary(Op::kNeg, c.b.Mul(y, x)));
  Value slope = c.b.Mul(c.b.Unary(Op::kNeg, y), c.b.Div(z, c.b.Add(z, 1.0)));
  return c.b.Mul(slope, LossGrad(c, g, x));
}
// (x - y) / (x (1 - x)), the divisor not below 1e-12
Value BinaryCrossEntropyGrad(OpContext& c, Value g, Value x) {
  Value y = c.Operand("target", x ? x.dtype() : DType::kF32);
  Value divisor = c.b.Binary(Op::kMax, c.b.Mul(OneMinus(c, x), x), Like(c.b, x, 1e-12));
  Value slope = c.b.Div(c.b.Sub(x, y), divisor);
  if (Value weight = c.OptionalTensor("weight")) slope = c.b.Mul(slope, c.b.Cast(weight, x ? x.dtype() : DType::kF32));
  return c.b.Mul(slope, LossGrad(c, g, x));
}

// -weight * grad at the target's class, 0 elsewhere; a mean divides by the total weight.
void NllGrad(OpContext& c) {
  DType dtype = GradType(c);
  Value x = c.Operand("self", dtype), g = c.Operand("grad_output", dtype);
  Targets t = ReadTargets(c, x);
  if (!t.index || !x) return;
  Reduction reduction = ReductionOf(c);
  if (reduction == Reduction::kMean) g = c.b.Div(g, c.Operand("total_weight", dtype));
  if (reduction == Reduction::kNone) g = c.b.Unsqueeze(g, t.dim);
  Value put = c.b.Mul(c.b.Unary(Op::kNeg, t.weight), g);
  // An ignored entry is nothing even when the total weight is 0.
  put = c.b.Where(c.b.Binary(Op::kNe, t.weight, Zero(c, t.weight)), put, Zero(c, t.weight));
  // A choice by class, which fuses, and not a scatter into zeros. The gather checks the target.
  Value classes = c.b.Iota(DType::kI64, x.shape(), static_cast<int>(t.dim));
  Value target = c.b.Emit(Op::kGather, {classes, t.index}, {{"dim", t.dim}});
  Value chosen = c.b.Binary(Op::kEq, classes, target);
  if (!chosen || !put) return;
  c.Set(c.b.Where(chosen, c.b.BroadcastTo(put, x.shape()), Zero(c, x)));
}

void DropoutGrad(OpContext& c) {
  DType dtype = GradType(c);
  Value kept = c.Operand("mask", dtype);
  c.Set(c.b.Mul(c.b.Mul(c.Operand("grad_output", dtype), kept), c.Double("scale", 1)));
}

}  // namespace

OpTable BackwardOps() {
  return {
      {"aten.threshold_backward.default", Gradient(Threshold)},
      {"aten.sigmoid_backward.default", Gradient(SigmoidGrad, "output")},
      {"aten.tanh_backward.default", Gradient(TanhGrad, "output")},
      {"aten.silu_backward.default", Gradient(SiluGrad)},
      {"aten.gelu_backward.default", Gradient(GeluGrad)},
      {"aten.softplus_backward.default", Gradient(SoftplusGrad)},
      {"aten.hardswish_backward.default", Gradient(HardswishGrad)},
      {"aten.hardsigmoid_backward.default", Gradient(HardsigmoidGrad)},
      {"aten.hardtanh_backward.default", Gradient(HardtanhGrad)},
      {"aten.leaky_relu_backward.default", Gradient(LeakyReluGrad)},
      {"aten.elu_backward.default", Gradient(EluGrad, "self_or_result")},
      {"aten.log_sigmoid_backward.default", Gradient(LogSigmoidGrad)},
      {"aten.mish_backward.default", Gradient(MishGrad)},
      {"aten.logit_backward.default", Gradient(LogitGrad)},
      {"aten.softshrink_backward.default", ShrinkGrad("grad_output")},
      {"aten.hardshrink_backward.default", ShrinkGrad("grad_out")},
      {"aten.glu_backward.default", GluGrad},
      {"aten._prelu_kernel_backward.default", PreluGrad},
      {"aten._softmax_backward_data.default", SoftmaxGrad},
      {"aten._log_softmax_backward_data.default", LogSoftmaxGrad},
      {"aten.mse_loss_backward.default", Gradient(MseGrad)},
      {"aten.smooth_l1_loss_backward.default", Gradient(SmoothL1Grad)},
      {"aten.huber_loss_backward.default", Gradient(HuberGrad)},
      {"aten.soft_margin_loss_backward.default", Gradient(SoftMarginGrad)},
      {"aten.binary_cross_entropy_backward.default", Gradient(BinaryCrossEntropyGrad)},
      {"aten.nll_loss_backward.default", NllGrad},
      {"aten.nll_loss2d_backward.default", NllGrad},
      {"aten.native_dropout_backward.default", DropoutGrad},
  };
}

}  // namespace preheat::decompose
