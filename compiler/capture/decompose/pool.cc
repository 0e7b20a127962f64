// Pooling: pad, cut into windows, reduce the windows. Upsampling: rows and columns picked by index.

#include <cmath>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/windows.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

std::vector<int64_t> LastDims(int rank, int count) {
  std::vector<int64_t> dims;
  for (int64_t i = rank - count; i < rank; ++i) dims.push_back(i);
  return dims;
}

std::vector<Expr> SpatialOf(OpContext& c, int spatial) {
  const std::vector<Expr>& shape = c.ResultShape();
  return {shape.end() - spatial, shape.end()};
}

// --- Maximum ---

// The position in x, counted over its spatial dimensions, of the maximum of each window.
Value MaxPositions(OpContext& c, Value windows, Value x, const Windows& w) {
  Builder& b = c.b;
  int lead = RankOf(x) - w.spatial, rank = RankOf(x);
  std::vector<Expr> flat(windows.shape().begin(), windows.shape().begin() + rank);
  int64_t elements = 1;
  for (int64_t k : w.kernel) elements *= k;
  flat.emplace_back(elements);
  Value inside = b.Emit(Op::kArgMax, {b.Reshape(windows, flat)}, {{"dim", int64_t{rank}}});
  Value position = b.Fill(Scalar(int64_t{0}), DType::kI64, inside ? inside.shape() : std::vector<Expr>{});
  int64_t below = elements;
  for (int i = 0; i < w.spatial && inside; ++i) {
    below /= w.kernel[i];
    Value offset = b.Binary(Op::kMod, b.Binary(Op::kFloorDiv, inside, Scalar(below)), Scalar(w.kernel[i]));
    Value start = AlongDim(b, WindowStarts(c, w, i, inside.shape()[lead + i]), rank, lead + i);
    Value at = b.Add(b.Binary(Op::kMul, offset, Scalar(w.dilation[i])), start);
    position = b.Add(b.Mul(position, b.Size(x.shape()[lead + i])), at);
  }
  return position;
}

LowerFn MaxPool(int spatial) {
  return [spatial](OpContext& c) {
    Value x = c.Tensor("self");
    if (RankOf(x) < spatial + 1) return c.Refuse("too few dimensions");
    Windows w = ReadWindows(c, spatial);
    std::vector<Expr> out = SpatialOf(c, spatial);
    Value windows = CutWindows(c, x, w, Lowest(x.dtype()), out);
    if (c.Wanted(0)) c.Set(0, c.b.Reduce(Op::kReduceMax, windows, LastDims(RankOf(windows), spatial), false));
    if (c.Wanted(1) && windows) c.Set(1, MaxPositions(c, windows, x, w));
  };
}

// --- Average ---

LowerFn AvgPool(int spatial) {
  return [spatial](OpContext& c) {
    Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
    if (RankOf(x) < spatial + 1) return c.Refuse("too few dimensions");
    Windows w = ReadWindows(c, spatial);
    std::vector<Expr> out = SpatialOf(c, spatial);
    Value windows = CutWindows(c, x, w, 0, out);
    Value sum = c.b.Reduce(Op::kReduceSum, windows, LastDims(RankOf(windows), spatial), false);
    bool padded = false;
    double elements = 1;
    for (int i = 0; i < spatial; ++i) {
      padded = padded || w.padding[i] != 0;
      elements *= static_cast<double>(w.kernel[i]);
    }
    bool count_padding = c.Bool("count_include_pad", true);
    if (c.Has("divisor_override")) return c.Set(c.b.Binary(Op::kDiv, sum, Scalar(c.Double("divisor_override", 1))));
    if (!w.ceil_mode && (count_padding || !padded)) return c.Set(c.b.Binary(Op::kDiv, sum, Scalar(elements)));
    c.Set(c.b.Div(sum, c.b.Cast(AverageCounts(c, x, w, out, count_padding), x.dtype())));
  };
}

// --- Adaptive: output i covers floor(i*in/out) to ceil((i+1)*in/out) ---

// Elements of one dimension by window: [..., in, ...] -> [..., out, ..., longest], and which of them count.
struct Uneven {
  Value elements, inside;  // inside: bool [out, longest]
  Value count;             // i64 [out]
};
Uneven CutUneven(OpContext& c, Value x, int64_t dim, int64_t in, int64_t out) {
  Builder& b = c.b;
  int64_t longest = (in + out - 1) / out + (in % out == 0 ? 0 : 1);
  Value i = b.Iota(DType::kI64, {Expr(out)}, 0);
  Value start = b.Binary(Op::kFloorDiv, b.Binary(Op::kMul, i, Scalar(in)), Scalar(out));
  Value end =
      b.Binary(Op::kFloorDiv, b.Binary(Op::kAdd, b.Binary(Op::kMul, i, Scalar(in)), Scalar(in + out - 1)), Scalar(out));
  Value offset = b.Iota(DType::kI64, {Expr(out), Expr(longest)}, 1);
  Value index = b.Add(b.Unsqueeze(start, 1), offset);
  Value inside = b.Binary(Op::kLt, index, b.Unsqueeze(end, 1));
  index = b.Binary(Op::kMin, index, Scalar(in - 1));
  Value taken = b.Emit(Op::kTake, {x, index}, {{"dim", dim}});
  std::vector<int64_t> order;  // the window's dimension goes to the end
  for (int64_t d = 0; d < RankOf(taken); ++d) {
    if (d != dim + 1) order.push_back(d);
  }
  order.push_back(dim + 1);
  return {b.Permute(taken, order), inside, b.Sub(end, start)};
}

Value Masked(OpContext& c, const Uneven& cut, int64_t dim, double outside) {
  if (!cut.elements || !cut.inside) return {};
  std::vector<Expr> shape(RankOf(cut.elements), Expr(1));
  shape[dim] = cut.inside.shape()[0];
  shape.back() = cut.inside.shape()[1];
  Value mask = c.b.BroadcastTo(c.b.Reshape(cut.inside, shape), cut.elements.shape());
  return c.b.Where(mask, cut.elements, Like(c.b, cut.elements, outside));
}

Value AdaptiveAverage(OpContext& c, Value x, int64_t dim, const Expr& out) {
  if (!x) return x;
  const Expr in = x.shape()[dim];
  if (in == out) return x;
  if (out == Expr(1)) return c.b.Mean(x, {dim}, true);
  std::optional<int64_t> n = in.constant(), m = out.constant();
  if (!n || !m || *m < 1) {
    c.Refuse("a symbolic size");
    return {};
  }
  if (*n % *m == 0) {
    std::vector<Expr> shape = x.shape();
    shape[dim] = out;
    shape.insert(shape.begin() + dim + 1, Expr(*n / *m));
    return c.b.Mean(c.b.Reshape(x, shape), {dim + 1}, false);
  }
  Uneven cut = CutUneven(c, x, dim, *n, *m);
  Value sum = c.b.Reduce(Op::kReduceSum, Masked(c, cut, dim, 0), {RankOf(x)}, false);
  return c.b.Div(sum, AlongDim(c.b, c.b.Cast(cut.count, x.dtype()), RankOf(x), dim));
}

LowerFn AdaptiveAvgPool(int spatial) {
  return [spatial](OpContext& c) {
    Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
    std::vector<Expr> out = SpatialOf(c, spatial);
    int rank = RankOf(x);
    bool to_one = rank > spatial;
    for (const Expr& size : out) to_one = to_one && size == Expr(1);
    if (to_one) return c.Set(c.b.Mean(x, LastDims(rank, spatial), true));  // one reduction, as global pooling is
    for (int i = 0; i < spatial; ++i) x = AdaptiveAverage(c, x, rank - spatial + i, out[i]);
    c.Set(x);
  };
}

Value AdaptiveMaximum(OpContext& c, Value x, int64_t dim, const Expr& out) {
  if (!x || x.shape()[dim] == out) return x;
  if (out == Expr(1)) return c.b.Reduce(Op::kReduceMax, x, {dim}, true);
  std::optional<int64_t> n = x.shape()[dim].constant(), m = out.constant();
  if (!n || !m || *m < 1) {
    c.Refuse("a symbolic size");
    return {};
  }
  Uneven cut = CutUneven(c, x, dim, *n, *m);
  return c.b.Reduce(Op::kReduceMax, Masked(c, cut, dim, Lowest(x.dtype())), {RankOf(x)}, false);
}

LowerFn AdaptiveMaxPool(int spatial) {
  return [spatial](OpContext& c) {
    if (c.Wanted(1)) return c.Refuse("positions of an adaptive maximum");
    Value x = c.Tensor("self");
    std::vector<Expr> out = SpatialOf(c, spatial);
    for (int i = 0; i < spatial; ++i) x = AdaptiveMaximum(c, x, RankOf(x) - spatial + i, out[i]);
    c.Set(x);
  };
}

// --- Upsampling ---

// The factor from an output index to an input one, in eager's order of preference.
double ScaleOf(OpContext& c, int i, int spatial, int64_t in, int64_t out) {
  std::vector<double> factors = c.Doubles("scale_factors");
  static const char* const kNames[] = {"scales_d", "scales_h", "scales_w"};
  const char* name = spatial == 1 ? "scales" : kNames[3 - spatial + i];
  double given = !factors.empty() ? factors[std::min<size_t>(i, factors.size() - 1)] : c.Double(name, 0);
  return given > 0 ? 1 / given : static_cast<double>(in) / static_cast<double>(out);
}

LowerFn UpsampleNearest(int spatial, bool exact) {
  return [spatial, exact](OpContext& c) {
    Value x = c.Tensor(c.Arg("input") != nullptr ? "input" : "self");
    std::vector<Expr> out = SpatialOf(c, spatial);
    for (int i = 0; i < spatial && x; ++i) {
      int64_t dim = RankOf(x) - spatial + i;
      std::optional<int64_t> n = x.shape()[dim].constant(), m = out[i].constant();
      if (!n || !m) return c.Refuse("a symbolic size");
      if (*n == *m) continue;
      Value index = c.b.Iota(DType::kF32, {out[i]}, 0);
      if (exact) index = c.b.Add(index, 0.5);
      Value at = c.b.Cast(c.b.Unary(Op::kFloor, c.b.Mul(index, ScaleOf(c, i, spatial, *n, *m))), DType::kI64);
      x = c.b.Emit(Op::kTake, {x, c.b.Binary(Op::kMin, at, Scalar(*n - 1))}, {{"dim", dim}});
    }
    c.Set(x);
  };
}

// Along one dimension: (1 - t) * x[floor] + t * x[floor + 1].
Value Interpolate(OpContext& c, Value x, int64_t dim, int64_t n, int64_t m, bool corners, double scale) {
  Builder& b = c.b;
  Value index = b.Iota(x.dtype(), {Expr(m)}, 0);
  Value at = corners ? b.Mul(index, m > 1 ? static_cast<double>(n - 1) / static_cast<double>(m - 1) : 0.0)
                     : b.Binary(Op::kMax, b.Add(b.Mul(b.Add(index, 0.5), scale), -0.5), Scalar(0.0));
  Value low = b.Binary(Op::kMin, b.Cast(b.Unary(Op::kFloor, at), DType::kI64), Scalar(n - 1));
  Value high = b.Binary(Op::kMin, b.Binary(Op::kAdd, low, Scalar(int64_t{1})), Scalar(n - 1));
  Value t = AlongDim(b, b.Binary(Op::kMin, b.Sub(at, b.Cast(low, x.dtype())), Scalar(1.0)), RankOf(x), dim);
  Value first = b.Emit(Op::kTake, {x, low}, {{"dim", dim}}), second = b.Emit(Op::kTake, {x, high}, {{"dim", dim}});
  return b.Add(b.Mul(first, b.Sub(Like(b, t, 1), t)), b.Mul(second, t));
}

LowerFn UpsampleLinear(int spatial) {
  return [spatial](OpContext& c) {
    Value x = c.Operand(c.Arg("input") != nullptr ? "input" : "self", ComputeType(c.ResultType().dtype));
    std::vector<Expr> out = SpatialOf(c, spatial);
    bool corners = c.Bool("align_corners", false);
    for (int i = 0; i < spatial && x; ++i) {
      int64_t dim = RankOf(x) - spatial + i;
      std::optional<int64_t> n = x.shape()[dim].constant(), m = out[i].constant();
      if (!n || !m) return c.Refuse("a symbolic size");
      if (*n == *m) continue;
      x = Interpolate(c, x, dim, *n, *m, corners, ScaleOf(c, i, spatial, *n, *m));
    }
    c.Set(x);
  };
}

// Sliding blocks as columns: [n, c, h, w] -> [n, c*kh*kw, blocks].
void Im2Col(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) != 4) return c.Refuse("an unbatched image");
  Windows w = ReadWindows(c, 2);
  Value windows = CutWindows(c, x, w, 0, {});
  c.Set(c.b.Reshape(c.b.Permute(windows, {0, 1, 4, 5, 2, 3}), c.ResultShape()));
}

}  // namespace

OpTable PoolOps() {
  return {
      {"aten.max_pool1d.default", MaxPool(1)},
      {"aten.max_pool2d.default", MaxPool(2)},
      {"aten.max_pool3d.default", MaxPool(3)},
      {"aten.max_pool2d_with_indices.default", MaxPool(2)},
      {"aten.max_pool3d_with_indices.default", MaxPool(3)},
      {"aten.max_pool1d_with_indices.default", MaxPool(1)},
      {"aten.avg_pool1d.default", AvgPool(1)},
      {"aten.avg_pool2d.default", AvgPool(2)},
      {"aten.avg_pool3d.default", AvgPool(3)},
      {"aten.adaptive_avg_pool1d.default", AdaptiveAvgPool(1)},
      {"aten.adaptive_avg_pool2d.default", AdaptiveAvgPool(2)},
      {"aten._adaptive_avg_pool2d.default", AdaptiveAvgPool(2)},
      {"aten.adaptive_avg_pool3d.default", AdaptiveAvgPool(3)},
      {"aten._adaptive_avg_pool3d.default", AdaptiveAvgPool(3)},
      {"aten.adaptive_max_pool1d.default", AdaptiveMaxPool(1)},
      {"aten.adaptive_max_pool2d.default", AdaptiveMaxPool(2)},
      {"aten.adaptive_max_pool3d.default", AdaptiveMaxPool(3)},
      {"aten.upsample_nearest1d.default", UpsampleNearest(1, false)},
      {"aten.upsample_nearest1d.vec", UpsampleNearest(1, false)},
      {"aten.upsample_nearest2d.default", UpsampleNearest(2, false)},
      {"aten.upsample_nearest2d.vec", UpsampleNearest(2, false)},
      {"aten.upsample_nearest3d.default", UpsampleNearest(3, false)},
      {"aten.upsample_nearest3d.vec", UpsampleNearest(3, false)},
      {"aten._upsample_nearest_exact1d.default", UpsampleNearest(1, true)},
      {"aten._upsample_nearest_exact2d.default", UpsampleNearest(2, true)},
      {"aten._upsample_nearest_exact2d.vec", UpsampleNearest(2, true)},
      {"aten.upsample_linear1d.default", UpsampleLinear(1)},
      {"aten.upsample_linear1d.vec", UpsampleLinear(1)},
      {"aten.upsample_bilinear2d.default", UpsampleLinear(2)},
      {"aten.upsample_bilinear2d.vec", UpsampleLinear(2)},
      {"aten.upsample_trilinear3d.default", UpsampleLinear(3)},
      {"aten.upsample_trilinear3d.vec", UpsampleLinear(3)},
      {"aten.im2col.default", Im2Col},
  };
}

}  // namespace preheat::decompose
