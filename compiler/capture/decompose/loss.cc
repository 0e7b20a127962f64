// Losses: an elementwise formula in the compute type, then the reduction.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/losses.h"

namespace preheat::decompose {

Reduction ReductionOf(OpContext& c) {
  int64_t number = c.Int("reduction", 1);
  if (number < 0 || number > 2) c.Refuse("an unknown reduction");
  return static_cast<Reduction>(number);
}

Targets ReadTargets(OpContext& c, Value logits) {
  Targets t;
  Value target = c.Tensor("target");
  if (!logits || !target) return t;
  t.dim = logits.type().rank() == 1 ? 0 : 1;
  if (!ir::IsInteger(target.dtype()) || target.type().rank() != logits.type().rank() - 1) {
    c.Refuse("targets that are no class indices");
    return t;
  }
  Value wide = c.b.Unsqueeze(c.b.Cast(target, DType::kI64), t.dim);
  Value ignored = c.b.Binary(Op::kEq, wide, Scalar(c.Int("ignore_index", -100)));
  t.index = c.b.Where(ignored, Like(c.b, wide, 0), wide);
  Value weight;
  if (Value classes = c.OptionalTensor("weight")) {
    weight = c.b.Emit(Op::kTake, {c.b.Cast(classes, logits.dtype()), t.index}, FromStart(0));
  } else {
    weight = c.b.Fill(Scalar(1.0), logits.dtype(), wide ? wide.shape() : std::vector<Expr>{});
  }
  t.weight = c.b.Where(ignored, Like(c.b, weight, 0), weight);
  return t;
}

namespace {

Value Compute(OpContext& c, const char* name, DType dtype) { return c.Operand(name, dtype); }
DType LossType(OpContext& c) { return ComputeType(c.ResultType().dtype); }

Value Total(OpContext& c, Value x) { return x && x.type().rank() == 0 ? x : c.b.Reduce(Op::kReduceSum, x, {}, false); }

void Reduced(OpContext& c, Value loss) {
  Reduction reduction = ReductionOf(c);
  if (reduction == Reduction::kNone) return c.Set(loss);
  Value sum = Total(c, loss);
  if (reduction == Reduction::kMean && loss) sum = DivBySize(c.b, sum, loss.type().NumElements());
  c.Set(sum);
}

using Formula = Value (*)(OpContext&, Value, Value);
LowerFn Elementwise(Formula formula) {
  return [formula](OpContext& c) {
    DType dtype = LossType(c);
    Value x = Compute(c, "self", dtype), y = Compute(c, "target", dtype);
    Reduced(c, formula(c, x, y));
  };
}

Value Square(OpContext& c, Value x, Value y) {
  Value d = c.b.Sub(x, y);
  return c.b.Mul(d, d);
}
Value Absolute(OpContext& c, Value x, Value y) { return c.b.Unary(Op::kAbs, c.b.Sub(x, y)); }

Value SmoothL1(OpContext& c, Value x, Value y) {
  double beta = c.Double("beta", 1);
  Value d = Absolute(c, x, y);
  if (beta == 0) return d;
  Value near = c.b.Binary(Op::kDiv, c.b.Mul(c.b.Mul(d, d), 0.5), Scalar(beta));
  return c.b.Where(c.b.Binary(Op::kLt, d, Scalar(beta)), near, c.b.Add(d, -0.5 * beta));
}
Value Huber(OpContext& c, Value x, Value y) {
  double delta = c.Double("delta", 1);
  Value d = Absolute(c, x, y);
  Value far = c.b.Mul(c.b.Add(d, -0.5 * delta), delta);
  return c.b.Where(c.b.Binary(Op::kLe, d, Scalar(delta)), c.b.Mul(c.b.Mul(d, d), 0.5), far);
}
Value SoftMargin(OpContext& c, Value x, Value y) {
  return c.b.Unary(Op::kLog1p, c.b.Unary(Op::kExp, c.b.Unary(Op::kNeg, c.b.Mul(x, y))));
}
// target * (log target - input), 0 where the target is 0; or of a logarithm given.
Value KlDiv(OpContext& c, Value x, Value y) {
  if (c.Bool("log_target", false)) return c.b.Mul(c.b.Unary(Op::kExp, y), c.b.Sub(y, x));
  Value log = c.b.Where(c.b.Binary(Op::kEq, y, Scalar(0.0)), Like(c.b, y, 0), c.b.Mul(y, c.b.Unary(Op::kLog, y)));
  return c.b.Sub(log, c.b.Mul(y, x));
}

Value Weighted(OpContext& c, Value loss) {
  if (Value weight = c.OptionalTensor("weight"))
    return c.b.Mul(loss, c.b.Cast(weight, loss ? loss.dtype() : DType::kF32));
  return loss;
}

// -(y log x + (1 - y) log(1 - x)), the logarithms not below -100.
Value BinaryCrossEntropy(OpContext& c, Value x, Value y) {
  Value one = Like(c.b, x, 1), floor = Like(c.b, x, -100);
  Value log_x = c.b.Binary(Op::kMax, c.b.Unary(Op::kLog, x), floor);
  Value log_rest = c.b.Binary(Op::kMax, c.b.Unary(Op::kLog1p, c.b.Unary(Op::kNeg, x)), floor);
  Value loss = c.b.Sub(c.b.Mul(c.b.Sub(y, one), log_rest), c.b.Mul(y, log_x));
  return Weighted(c, loss);
}

// (1 - y) x + w (log(1 + exp(-|x|)) + max(-x, 0)), w = 1 + (pos_weight - 1) y
Value BinaryWithLogits(OpContext& c, Value x, Value y) {
  Value soft = c.b.Unary(Op::kLog1p, c.b.Unary(Op::kExp, c.b.Unary(Op::kNeg, c.b.Unary(Op::kAbs, x))));
  Value log_weight = c.b.Add(soft, Relu(c.b, c.b.Unary(Op::kNeg, x)));
  if (Value positive = c.OptionalTensor("pos_weight"); positive && x) {
    Value w = c.b.Add(c.b.Mul(c.b.Add(c.b.Cast(positive, x.dtype()), -1.0), y), 1.0);
    log_weight = c.b.Mul(log_weight, w);
  }
  return Weighted(c, c.b.Add(c.b.Mul(c.b.Sub(Like(c.b, x, 1), y), x), log_weight));
}

// -weight * log_probability of the target's class; results: loss, total weight.
void NegativeLogLikelihood(OpContext& c, Value log_probabilities) {
  Targets t = ReadTargets(c, log_probabilities);
  if (!t.index || !log_probabilities) return;
  Value picked = c.b.Emit(Op::kGather, {log_probabilities, t.index}, FromStart(t.dim));
  // Ignored entries must not turn an infinite log probability into NaN.
  Value counted = c.b.Binary(Op::kNe, t.weight, Like(c.b, t.weight, 0));
  Value loss = c.b.Where(counted, c.b.Mul(c.b.Unary(Op::kNeg, picked), t.weight), Like(c.b, t.weight, 0));
  Reduction reduction = ReductionOf(c);
  Value total = Total(c, t.weight);
  if (reduction == Reduction::kNone) {
    c.Set(0, c.b.Squeeze(loss, t.dim));
    if (c.Wanted(1)) c.Set(1, c.Fill(0, c.ResultType(1).dtype, c.ResultShape(1)));
    return;
  }
  Value sum = Total(c, loss);
  c.Set(0, reduction == Reduction::kMean ? c.b.Div(sum, total) : sum);
  c.Set(1, total);
}

void Nll(OpContext& c) { NegativeLogLikelihood(c, c.Operand("self", LossType(c))); }

void CrossEntropy(OpContext& c) {
  Value x = c.Operand("self", LossType(c));
  if (!x || x.type().rank() == 0) return c.Refuse("a 0-d tensor");
  if (c.Double("label_smoothing", 0) != 0) return c.Refuse("label smoothing");
  NegativeLogLikelihood(c, LogSoftmax(c.b, x, x.type().rank() == 1 ? 0 : 1));
}

void CosineSimilarity(OpContext& c) {
  DType dtype = LossType(c);
  Value x = c.Operand("x1", dtype), y = c.Operand("x2", dtype);
  if (!x || !y) return;
  std::vector<Expr> shape = c.b.BroadcastShape(x.shape(), y.shape());
  x = c.b.BroadcastTo(x, shape);
  y = c.b.BroadcastTo(y, shape);
  int64_t dim = c.Wrap(c.Int("dim", 1), static_cast<int>(shape.size()));
  double eps = c.Double("eps", 1e-8);
  auto length = [&](Value v) {
    Value norm = c.b.Unary(Op::kSqrt, c.b.Reduce(Op::kReduceSum, c.b.Mul(v, v), {dim}, true));
    return c.b.Binary(Op::kMax, norm, Scalar(eps));
  };
  Value product = c.b.Mul(c.b.Div(x, length(x)), c.b.Div(y, length(y)));
  c.Set(c.b.Reduce(Op::kReduceSum, product, {dim}, false));
}

}  // namespace

OpTable LossOps() {
  return {
      {"aten.mse_loss.default", Elementwise(Square)},
      {"aten.l1_loss.default", Elementwise(Absolute)},
      {"aten.smooth_l1_loss.default", Elementwise(SmoothL1)},
      {"aten.huber_loss.default", Elementwise(Huber)},
      {"aten.soft_margin_loss.default", Elementwise(SoftMargin)},
      {"aten.kl_div.default", Elementwise(KlDiv)},
      {"aten.binary_cross_entropy.default", Elementwise(BinaryCrossEntropy)},
      {"aten.binary_cross_entropy_with_logits.default", Elementwise(BinaryWithLogits)},
      {"aten.nll_loss.default", Nll},
      {"aten.nll_loss_nd.default", Nll},
      {"aten.nll_loss2d.default", Nll},
      {"aten.nll_loss_forward.default", Nll},
      {"aten.nll_loss2d_forward.default", Nll},
      {"aten.cross_entropy_loss.default", CrossEntropy},
      {"aten.cosine_similarity.default", CosineSimilarity},
  };
}

}  // namespace preheat::decompose
