// Pooling: pad, cut into windows, reduce the windows.

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

// Which element of each row is its maximum: the first of equals, but of NaNs the last, as eager's pooling has it.
Value PickOfWindow(Builder& b, Value rows, int dim) {
  Value first = b.Emit(Op::kArgMax, {rows}, {{"dim", int64_t{dim}}});
  if (!first || !IsFloat(rows.dtype())) return first;
  Value place = b.Iota(DType::kI64, rows.shape(), dim);
  Value nans = b.Where(b.Unary(Op::kIsNan, rows), place, Like(b, place, -1));
  Value last = b.Reduce(Op::kReduceMax, nans, {dim}, false);
  return b.Where(b.Binary(Op::kLt, last, Scalar(int64_t{0})), first, last);
}

// The position in x, counted over its spatial dimensions, of the maximum of each window.
Value MaxPositions(OpContext& c, Value windows, Value x, const Windows& w) {
  Builder& b = c.b;
  int lead = RankOf(x) - w.spatial, rank = RankOf(x);
  std::vector<Expr> flat(windows.shape().begin(), windows.shape().begin() + rank);
  int64_t elements = 1;
  for (int64_t k : w.kernel) elements *= k;
  flat.emplace_back(elements);
  Value inside = PickOfWindow(b, b.Reshape(windows, flat), rank);
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

// --- Adaptive ---

// The elements of each window, in a last dimension: [..., in, ...] -> [..., out, ..., longest]; what is outside of a
// window is `outside`.
Value WindowElements(OpContext& c, Value x, const UnevenWindows& windows, int64_t dim, double outside) {
  Value taken = c.b.Emit(Op::kTake, {x, windows.index}, {{"dim", dim}});
  std::vector<int64_t> order;  // the window's dimension goes to the end
  for (int64_t d = 0; d < RankOf(taken); ++d) {
    if (d != dim + 1) order.push_back(d);
  }
  order.push_back(dim + 1);
  Value elements = c.b.Permute(taken, order);
  if (!elements) return {};
  Value mask = InsideMask(c, windows, elements, dim, RankOf(elements) - 1);
  return c.b.Where(mask, elements, Like(c.b, elements, outside));
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
  UnevenWindows windows = CutUneven(c, *n, *m);
  Value sum = c.b.Reduce(Op::kReduceSum, WindowElements(c, x, windows, dim, 0), {RankOf(x)}, false);
  return c.b.Div(sum, AlongDim(c.b, c.b.Cast(windows.count, x.dtype()), RankOf(x), dim));
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
  Value elements = WindowElements(c, x, CutUneven(c, *n, *m), dim, Lowest(x.dtype()));
  return c.b.Reduce(Op::kReduceMax, elements, {RankOf(x)}, false);
}

// Maxima and where they lie, counted over the spatial dimensions: from the last dimension to the first, so that of
// equals the first one counts.
void AdaptiveMaxWithPositions(OpContext& c, Value x, int spatial) {
  Builder& b = c.b;
  std::vector<Expr> out = SpatialOf(c, spatial);
  int rank = RankOf(x);
  Value positions = b.Fill(Scalar(int64_t{0}), DType::kI64, x.shape());
  int64_t inner = 1;
  for (int i = spatial - 1; i >= 0 && x; --i) {
    int64_t dim = rank - spatial + i;
    std::optional<int64_t> n = x.shape()[dim].constant(), m = out[i].constant();
    if (!n || !m || *m < 1) return c.Refuse("a symbolic size");
    UnevenWindows windows = CutUneven(c, *n, *m);
    Value elements = WindowElements(c, x, windows, dim, Lowest(x.dtype()));
    Value at = b.Emit(Op::kArgMax, {elements}, {{"dim", int64_t{rank}}});
    Value below = WindowElements(c, positions, windows, dim, 0);
    below = b.Squeeze(b.Emit(Op::kGather, {below, b.Unsqueeze(at, rank)}, {{"dim", int64_t{rank}}}), rank);
    Value along = b.Add(at, AlongDim(b, windows.start, rank, dim));
    positions = b.Add(below, b.Binary(Op::kMul, along, Scalar(inner)));
    x = b.Reduce(Op::kReduceMax, elements, {rank}, false);
    inner *= *n;
  }
  c.Set(0, x);
  c.Set(1, positions);
}

LowerFn AdaptiveMaxPool(int spatial) {
  return [spatial](OpContext& c) {
    Value x = c.Tensor("self");
    if (RankOf(x) < spatial) return c.Refuse("too few dimensions");
    if (c.Wanted(1)) return AdaptiveMaxWithPositions(c, x, spatial);
    std::vector<Expr> out = SpatialOf(c, spatial);
    for (int i = 0; i < spatial; ++i) x = AdaptiveMaximum(c, x, RankOf(x) - spatial + i, out[i]);
    c.Set(x);
  };
}

// Elements put where a pooling took them from, zeros elsewhere.
LowerFn MaxUnpool(int spatial) {
  return [spatial](OpContext& c) {
    Value x = c.Tensor("self"), index = c.Tensor("indices");
    int lead = RankOf(x) - spatial;
    if (lead < 0 || !index) return c.Refuse("too few dimensions");
    auto flat = [&](const std::vector<Expr>& shape) {
      std::vector<Expr> sizes(shape.begin(), shape.begin() + lead);
      sizes.push_back(ir::NumElements(std::vector<Expr>(shape.begin() + lead, shape.end())));
      return sizes;
    };
    Value zeros = c.Fill(0, x.dtype(), flat(c.ResultShape()));
    Value put = c.b.Emit(Op::kScatter, {zeros, c.b.Reshape(index, flat(x.shape())), c.b.Reshape(x, flat(x.shape()))},
                         {{"dim", int64_t{lead}}, {"reduce", std::string("set")}});
    c.Set(c.b.Reshape(put, c.ResultShape()));
  };
}

// Sliding blocks as columns: [n, c, h, w] -> [n, c*kh*kw, blocks].
void Im2Col(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) == 3) x = c.b.Unsqueeze(x, 0);
  if (RankOf(x) != 4) return c.Refuse("no image");
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
      {"aten.max_unpool2d.default", MaxUnpool(2)},
      {"aten.max_unpool3d.default", MaxUnpool(3)},
      {"aten.im2col.default", Im2Col},
  };
}

}  // namespace preheat::decompose
