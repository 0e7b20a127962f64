// Upsampling and its gradients. Along each dimension an output element is a weighted sum of a few input elements, its
// taps; the gradient adds each output's gradient, weighted, to its taps.

#include <cmath>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// One input element for each of m output elements.
struct Tap {
  Value index;   // i64 [m]
  Value weight;  // [m]; null: 1
};

// A dimension of n elements that becomes m; scale: from an output index to an input one.
struct Resize {
  int64_t n = 0, m = 0;
  double scale = 1;
  bool corners = false;  // the outermost elements of both sides meet
  DType dtype = DType::kF32;
};

using TapsFn = std::vector<Tap> (*)(OpContext&, const Resize&);

std::vector<Tap> Nearest(OpContext& c, const Resize& r) {
  Value at = c.b.Mul(c.b.Iota(DType::kF32, {Expr(r.m)}, 0), r.scale);
  Value index = c.b.Cast(c.b.Unary(Op::kFloor, at), DType::kI64);
  return {{c.b.Binary(Op::kMin, index, Scalar(r.n - 1)), {}}};
}
std::vector<Tap> NearestExact(OpContext& c, const Resize& r) {
  Value at = c.b.Mul(c.b.Add(c.b.Iota(DType::kF32, {Expr(r.m)}, 0), 0.5), r.scale);
  Value index = c.b.Cast(c.b.Unary(Op::kFloor, at), DType::kI64);
  return {{c.b.Binary(Op::kMin, index, Scalar(r.n - 1)), {}}};
}

// The place of each output element among the input's.
Value SourcePlace(OpContext& c, const Resize& r) {
  Value index = c.b.Iota(r.dtype, {Expr(r.m)}, 0);
  if (!r.corners) return c.b.Add(c.b.Mul(c.b.Add(index, 0.5), r.scale), -0.5);
  return c.b.Mul(index, r.m > 1 ? static_cast<double>(r.n - 1) / static_cast<double>(r.m - 1) : 0.0);
}

std::vector<Tap> Linear(OpContext& c, const Resize& r) {
  Builder& b = c.b;
  Value at = SourcePlace(c, r);
  if (!r.corners) at = b.Binary(Op::kMax, at, Scalar(0.0));
  Value low = b.Binary(Op::kMin, b.Cast(b.Unary(Op::kFloor, at), DType::kI64), Scalar(r.n - 1));
  Value high = b.Binary(Op::kMin, b.Binary(Op::kAdd, low, Scalar(int64_t{1})), Scalar(r.n - 1));
  Value t = b.Binary(Op::kMin, b.Sub(at, b.Cast(low, r.dtype)), Scalar(1.0));
  return {{low, b.Sub(Like(b, t, 1), t)}, {high, t}};
}

// Cubic convolution with a = -0.75, at a distance below 1 and between 1 and 2.
Value CubicNear(Builder& b, Value t) {
  const double a = -0.75;
  return b.Add(b.Mul(b.Mul(b.Add(b.Mul(t, a + 2), -(a + 3)), t), t), 1.0);
}
Value CubicFar(Builder& b, Value t) {
  const double a = -0.75;
  return b.Add(b.Mul(b.Add(b.Mul(b.Add(b.Mul(t, a), -5 * a), t), 8 * a), t), -4 * a);
}

std::vector<Tap> Cubic(OpContext& c, const Resize& r) {
  Builder& b = c.b;
  Value at = SourcePlace(c, r), floor = b.Unary(Op::kFloor, at);
  Value t = b.Sub(at, floor), low = b.Cast(floor, DType::kI64);
  Value rest = b.Sub(Like(b, t, 1), t);
  const Value weights[] = {CubicFar(b, b.Add(t, 1.0)), CubicNear(b, t), CubicNear(b, rest),
                           CubicFar(b, b.Add(rest, 1.0))};
  std::vector<Tap> taps;
  for (int64_t i = 0; i < 4; ++i) {
    Value index = b.Binary(Op::kMax, b.Binary(Op::kAdd, low, Scalar(i - 1)), Scalar(int64_t{0}));
    taps.push_back({b.Binary(Op::kMin, index, Scalar(r.n - 1)), weights[i]});
  }
  return taps;
}

// The factor from an output index to an input one, in eager's order of preference.
double ScaleOf(OpContext& c, int i, int spatial, int64_t in, int64_t out) {
  std::vector<double> factors = c.Doubles("scale_factors");
  static const char* const kNames[] = {"scales_d", "scales_h", "scales_w"};
  const char* name = spatial == 1 ? "scales" : kNames[3 - spatial + i];
  double given = !factors.empty() ? factors[std::min<size_t>(i, factors.size() - 1)] : c.Double(name, 0);
  return given > 0 ? 1 / given : static_cast<double>(in) / static_cast<double>(out);
}

// How spatial dimension i is resized; false, refused, when its sizes are symbolic.
bool ReadResize(OpContext& c, int i, int spatial, const Expr& in, const Expr& out, Resize& r) {
  if (!in.constant() || !out.constant() || *in.constant() < 1 || *out.constant() < 1) {
    c.Refuse("a symbolic or empty size");
    return false;
  }
  r.n = *in.constant();
  r.m = *out.constant();
  r.scale = ScaleOf(c, i, spatial, r.n, r.m);
  r.corners = c.Bool("align_corners", false);
  return true;
}

LowerFn Upsample(int spatial, TapsFn taps_of) {
  return [spatial, taps_of](OpContext& c) {
    Value x = c.Operand(c.Arg("input") != nullptr ? "input" : "self", ComputeType(c.ResultType().dtype));
    int lead = RankOf(x) - spatial;
    if (lead < 0) return c.Refuse("too few dimensions");
    for (int i = 0; i < spatial && x; ++i) {
      int64_t dim = lead + i;
      Resize r{.dtype = x.dtype()};
      if (!ReadResize(c, i, spatial, x.shape()[dim], c.ResultShape()[dim], r)) return;
      if (r.n == r.m && r.scale == 1) continue;
      Value sum;
      for (const Tap& tap : taps_of(c, r)) {
        Value part = c.b.Emit(Op::kTake, {x, tap.index}, {{"dim", dim}});
        if (tap.weight) part = c.b.Mul(part, AlongDim(c.b, tap.weight, RankOf(x), dim));
        sum = sum ? c.b.Add(sum, part) : part;
      }
      x = sum;
    }
    c.Set(x);
  };
}

LowerFn UpsampleGrad(int spatial, TapsFn taps_of) {
  return [spatial, taps_of](OpContext& c) {
    Value g = c.Operand("grad_output", ComputeType(c.ResultType().dtype));
    int lead = RankOf(g) - spatial;
    if (lead < 0) return c.Refuse("too few dimensions");
    for (int i = 0; i < spatial && g; ++i) {
      int64_t dim = lead + i;
      Resize r{.dtype = g.dtype()};
      if (!ReadResize(c, i, spatial, c.ResultShape()[dim], g.shape()[dim], r)) return;
      if (r.n == r.m && r.scale == 1) continue;
      std::vector<Expr> shape = g.shape();
      shape[dim] = r.n;
      Value sum = c.Fill(0, g.dtype(), shape);
      for (const Tap& tap : taps_of(c, r)) {
        Value part = tap.weight ? c.b.Mul(g, AlongDim(c.b, tap.weight, RankOf(g), dim)) : g;
        sum = c.b.Emit(Op::kPutRows, {sum, tap.index, part}, {{"dim", dim}, {"reduce", std::string("add")}});
      }
      g = sum;
    }
    c.Set(g);
  };
}

}  // namespace

OpTable UpsampleOps() {
  return {
      {"aten.upsample_nearest1d.default", Upsample(1, Nearest)},
      {"aten.upsample_nearest1d.vec", Upsample(1, Nearest)},
      {"aten.upsample_nearest2d.default", Upsample(2, Nearest)},
      {"aten.upsample_nearest2d.vec", Upsample(2, Nearest)},
      {"aten.upsample_nearest3d.default", Upsample(3, Nearest)},
      {"aten.upsample_nearest3d.vec", Upsample(3, Nearest)},
      {"aten._upsample_nearest_exact1d.default", Upsample(1, NearestExact)},
      {"aten._upsample_nearest_exact1d.vec", Upsample(1, NearestExact)},
      {"aten._upsample_nearest_exact2d.default", Upsample(2, NearestExact)},
      {"aten._upsample_nearest_exact2d.vec", Upsample(2, NearestExact)},
      {"aten._upsample_nearest_exact3d.default", Upsample(3, NearestExact)},
      {"aten._upsample_nearest_exact3d.vec", Upsample(3, NearestExact)},
      {"aten.upsample_linear1d.default", Upsample(1, Linear)},
      {"aten.upsample_linear1d.vec", Upsample(1, Linear)},
      {"aten.upsample_bilinear2d.default", Upsample(2, Linear)},
      {"aten.upsample_bilinear2d.vec", Upsample(2, Linear)},
      {"aten.upsample_trilinear3d.default", Upsample(3, Linear)},
      {"aten.upsample_trilinear3d.vec", Upsample(3, Linear)},
      {"aten.upsample_bicubic2d.default", Upsample(2, Cubic)},
      {"aten.upsample_bicubic2d.vec", Upsample(2, Cubic)},
      {"aten.upsample_nearest1d_backward.default", UpsampleGrad(1, Nearest)},
      {"aten.upsample_nearest2d_backward.default", UpsampleGrad(2, Nearest)},
      {"aten.upsample_nearest3d_backward.default", UpsampleGrad(3, Nearest)},
      {"aten._upsample_nearest_exact1d_backward.default", UpsampleGrad(1, NearestExact)},
      {"aten._upsample_nearest_exact2d_backward.default", UpsampleGrad(2, NearestExact)},
      {"aten._upsample_nearest_exact3d_backward.default", UpsampleGrad(3, NearestExact)},
      {"aten.upsample_linear1d_backward.default", UpsampleGrad(1, Linear)},
      {"aten.upsample_bilinear2d_backward.default", UpsampleGrad(2, Linear)},
      {"aten.upsample_trilinear3d_backward.default", UpsampleGrad(3, Linear)},
      {"aten.upsample_bicubic2d_backward.default", UpsampleGrad(2, Cubic)},
  };
}

}  // namespace preheat::decompose
