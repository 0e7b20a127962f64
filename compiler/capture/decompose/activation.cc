// Activation functions. Each is a formula of formulas.h in the compute type, rounded once.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

using Formula = Value (*)(OpContext&, Value);

LowerFn Activation(Formula formula) {
  return [formula](OpContext& c) { c.Set(formula(c, c.Operand("self", ComputeType(c.ResultType().dtype)))); };
}

Value ReluOf(OpContext& c, Value x) { return Relu(c.b, x); }
Value Relu6(OpContext& c, Value x) { return Clamp(c.b, x, Like(c.b, x, 0), Like(c.b, x, 6)); }
// Where eager's bits are wanted: with the float nearest to the exponential.
Value SigmoidOf(OpContext& c, Value x) {
  if (!x || !c.exact()) return Sigmoid(c.b, x);
  Value exponential = c.b.Unary(Op::kExp, c.b.Cast(c.b.Unary(Op::kNeg, x), DType::kF64));
  return c.b.Unary(Op::kReciprocal, c.b.Add(c.b.Cast(exponential, x.dtype()), 1.0));
}
Value SiluOf(OpContext& c, Value x) { return Silu(c.b, x); }
Value GeluOf(OpContext& c, Value x) { return Gelu(c.b, x, c.Text("approximate", "none") == "tanh"); }
Value SoftplusOf(OpContext& c, Value x) { return Softplus(c.b, x, c.Double("beta", 1), c.Double("threshold", 20)); }
Value Mish(OpContext& c, Value x) { return c.b.Mul(x, c.b.Unary(Op::kTanh, Softplus(c.b, x, 1, 20))); }

Value Hardtanh(OpContext& c, Value x) {
  return Clamp(c.b, x, Like(c.b, x, c.Double("min_val", -1)), Like(c.b, x, c.Double("max_val", 1)));
}
// clamp(x + 3, 0, 6) / 6
Value Gate(OpContext& c, Value x) {
  Value shifted = c.b.Add(x, 3.0);
  return c.b.Binary(Op::kDiv, Clamp(c.b, shifted, Like(c.b, x, 0), Like(c.b, x, 6)), Scalar(6.0));
}
Value Hardswish(OpContext& c, Value x) {
  Value clamped = Clamp(c.b, c.b.Add(x, 3.0), Like(c.b, x, 0), Like(c.b, x, 6));
  return c.b.Binary(Op::kDiv, c.b.Mul(x, clamped), Scalar(6.0));
}

Value LeakyRelu(OpContext& c, Value x) {
  Value slope = c.b.Mul(x, c.Double("negative_slope", 0.01));
  return c.b.Where(c.b.Binary(Op::kGt, x, Scalar(0.0)), x, slope);
}

Value EluWith(OpContext& c, Value x, double alpha, double scale, double input_scale) {
  Value negative = c.b.Mul(c.b.Unary(Op::kExpm1, c.b.Mul(x, input_scale)), alpha * scale);
  return c.b.Where(c.b.Binary(Op::kGt, x, Scalar(0.0)), c.b.Mul(x, scale), negative);
}
Value Elu(OpContext& c, Value x) {
  return EluWith(c, x, c.Double("alpha", 1), c.Double("scale", 1), c.Double("input_scale", 1));
}
Value Selu(OpContext& c, Value x) { return EluWith(c, x, 1.6732632423543772, 1.0507009873554805, 1); }
// max(x, 0) + min(alpha * expm1(x / alpha), 0)
Value Celu(OpContext& c, Value x) {
  double alpha = c.Double("alpha", 1);
  return EluWith(c, x, alpha, 1, 1 / alpha);
}

Value LogSigmoid(OpContext& c, Value x) {
  Value positive = c.b.Unary(Op::kExp, c.b.Unary(Op::kNeg, c.b.Unary(Op::kAbs, x)));
  return c.b.Sub(c.b.Binary(Op::kMin, x, Like(c.b, x, 0)), c.b.Unary(Op::kLog1p, positive));
}

// Results: log sigmoid, and the exponential that its gradient reuses.
// Its gradient reads the second result on CPUs; on GPUs that is declared empty.
void LogSigmoidForward(OpContext& c) {
  Value x = c.Operand("self", ComputeType(c.ResultType(0).dtype));
  c.Set(0, LogSigmoid(c, x));
  if (!c.Wanted(1)) return;
  const bool declared = c.ResultShape(1) == x.shape();
  c.Set(1, declared ? c.b.Unary(Op::kExp, c.b.Unary(Op::kNeg, c.b.Unary(Op::kAbs, x)))
                    : c.Fill(0, c.ResultType(1).dtype, c.ResultShape(1)));
}

Value Softshrink(OpContext& c, Value x) {
  double lambda = c.Double("lambd", 0.5);
  Value low = c.b.Where(c.b.Binary(Op::kLt, x, Scalar(-lambda)), c.b.Add(x, lambda), c.b.Mul(x, 0.0));
  return c.b.Where(c.b.Binary(Op::kGt, x, Scalar(lambda)), c.b.Add(x, -lambda), low);
}
Value Hardshrink(OpContext& c, Value x) {
  double lambda = c.Double("lambd", 0.5);
  Value inside = c.b.Emit(Op::kAnd, {c.b.Binary(Op::kGe, x, Scalar(-lambda)), c.b.Binary(Op::kLe, x, Scalar(lambda))});
  return c.b.Where(inside, Like(c.b, x, 0), x);
}
Value Softsign(OpContext& c, Value x) { return c.b.Div(x, c.b.Add(c.b.Unary(Op::kAbs, x), 1.0)); }
Value Tanhshrink(OpContext& c, Value x) { return c.b.Sub(x, c.b.Unary(Op::kTanh, x)); }

void Prelu(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value x = c.Operand("self", dtype), weight = c.Operand("weight", dtype);
  if (weight && x && weight.type().rank() == 1 && x.type().rank() > 1)
    weight = AlongDim(c.b, weight, x.type().rank(), 1);
  c.Set(c.b.Where(c.b.Binary(Op::kGt, x, Scalar(0.0)), x, c.b.Mul(weight, x)));
}

// The first half of a dimension times the sigmoid of the second.
void Glu(OpContext& c) {
  Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
  if (!x) return;
  int64_t dim = c.Wrap(c.Int("dim", -1), x.type().rank());
  Expr half = c.ResultShape()[dim];
  c.Set(c.b.Mul(c.b.SliceDim(x, dim, 0, half), Sigmoid(c.b, c.b.SliceDim(x, dim, half, half))));
}

}  // namespace

OpTable ActivationOps() {
  return {
      {"aten.relu.default", Activation(ReluOf)},
      {"aten.relu6.default", Activation(Relu6)},
      {"aten.sigmoid.default", Activation(SigmoidOf)},
      {"aten.special_expit.default", Activation(SigmoidOf)},
      {"aten.silu.default", Activation(SiluOf)},
      {"aten.gelu.default", Activation(GeluOf)},
      {"aten.softplus.default", Activation(SoftplusOf)},
      {"aten.mish.default", Activation(Mish)},
      {"aten.hardtanh.default", Activation(Hardtanh)},
      {"aten.hardsigmoid.default", Activation(Gate)},
      {"aten.hardswish.default", Activation(Hardswish)},
      {"aten.leaky_relu.default", Activation(LeakyRelu)},
      {"aten.elu.default", Activation(Elu)},
      {"aten.selu.default", Activation(Selu)},
      {"aten.celu.default", Activation(Celu)},
      {"aten.log_sigmoid.default", Activation(LogSigmoid)},
      {"aten.log_sigmoid_forward.default", LogSigmoidForward},
      {"aten.softshrink.default", Activation(Softshrink)},
      {"aten.hardshrink.default", Activation(Hardshrink)},
      {"aten.softsign.default", Activation(Softsign)},
      {"aten.tanhshrink.default", Activation(Tanhshrink)},
      {"aten.prelu.default", Prelu},
      {"aten._prelu_kernel.default", Prelu},
      {"aten.glu.default", Glu},
  };
}

}  // namespace preheat::decompose
