#include "compiler/capture/decompose/windows.h"

#include <utility>

#include "compiler/capture/decompose/formulas.h"

namespace preheat::decompose {

std::vector<int64_t> PerDim(OpContext& c, const std::string& name, int spatial, std::vector<int64_t> otherwise) {
  std::vector<int64_t> values = c.Ints(name);
  if (values.empty()) return otherwise;
  if (values.size() == 1) values.resize(spatial, values[0]);
  if (static_cast<int>(values.size()) != spatial) {
    c.Refuse("a geometry of another number of dimensions");
    return otherwise;
  }
  return values;
}

Windows ReadWindows(OpContext& c, int spatial) {
  Windows w;
  w.spatial = spatial;
  std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  w.kernel = PerDim(c, "kernel_size", spatial, ones);
  w.stride = PerDim(c, "stride", spatial, w.kernel);
  w.padding = PerDim(c, "padding", spatial, zeros);
  w.dilation = PerDim(c, "dilation", spatial, ones);
  w.ceil_mode = c.Bool("ceil_mode", false);
  for (int i = 0; i < spatial; ++i) {
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.padding[i] < 0)
      c.Refuse("an empty or negative window");
  }
  return w;
}

Value CutWindows(OpContext& c, Value x, const Windows& w, double value, const std::vector<Expr>& out) {
  if (!x) return x;
  int rank = x.type().rank(), lead = rank - w.spatial;
  std::vector<Expr> low(rank, Expr(0)), high(rank, Expr(0));
  bool pads = false;
  for (int i = 0; i < w.spatial; ++i) {
    low[lead + i] = w.padding[i];
    high[lead + i] = w.padding[i];
    if (w.ceil_mode) {  // the last window may reach beyond the padding
      Expr needed = (out[i] - 1) * w.stride[i] + w.dilation[i] * (w.kernel[i] - 1) + 1;
      high[lead + i] = Expr::Max(needed - x.shape()[lead + i] - w.padding[i], w.padding[i]);
    }
    pads = pads || low[lead + i] != Expr(0) || high[lead + i] != Expr(0);
  }
  if (pads) {
    ir::AttrValue fill = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(value, x.dtype()));
    x = c.b.Emit(Op::kPad, {x}, {{"low", low}, {"high", high}, {"value", fill}});
  }
  for (int i = 0; i < w.spatial && x; ++i) {
    x = c.b.Emit(
        Op::kWindow, {x},
        {{"dim", int64_t{lead + i}}, {"size", w.kernel[i]}, {"step", w.stride[i]}, {"dilation", w.dilation[i]}});
    // Padding may leave room for a window that torch does not count.
    if (x && w.ceil_mode && x.shape()[lead + i] != out[i]) x = c.b.SliceDim(x, lead + i, 0, out[i]);
  }
  return x;
}

Value WindowStarts(OpContext& c, const Windows& w, int dim, const Expr& out) {
  Value index = c.b.Iota(DType::kI64, {out}, 0);
  return c.b.Binary(Op::kSub, c.b.Binary(Op::kMul, index, Scalar(w.stride[dim])), Scalar(w.padding[dim]));
}

namespace {

Value CountAlong(OpContext& c, const Windows& w, int dim, const Expr& size, const Expr& out, bool count_padding) {
  Builder& b = c.b;
  Value start = WindowStarts(c, w, dim, out);
  Value end = b.Binary(Op::kAdd, start, Scalar(w.kernel[dim]));
  Value limit = b.Size(size + (count_padding ? w.padding[dim] : 0));
  if (!count_padding) start = b.Binary(Op::kMax, start, Scalar(int64_t{0}));
  return b.Sub(b.Binary(Op::kMin, end, limit), start);
}

}  // namespace

UnevenWindows CutUneven(OpContext& c, int64_t in, int64_t out) {
  Builder& b = c.b;
  int64_t longest = (in + out - 1) / out + (in % out == 0 ? 0 : 1);
  Value i = b.Iota(DType::kI64, {Expr(out)}, 0), scaled = b.Binary(Op::kMul, i, Scalar(in));
  Value start = b.Binary(Op::kFloorDiv, scaled, Scalar(out));
  Value end = b.Binary(Op::kFloorDiv, b.Binary(Op::kAdd, scaled, Scalar(in + out - 1)), Scalar(out));
  Value offset = b.Iota(DType::kI64, {Expr(out), Expr(longest)}, 1);
  Value index = b.Add(b.Unsqueeze(start, 1), offset);
  Value inside = b.Binary(Op::kLt, index, b.Unsqueeze(end, 1));
  return {b.Binary(Op::kMin, index, Scalar(in - 1)), inside, start, b.Sub(end, start)};
}

Value InsideMask(OpContext& c, const UnevenWindows& windows, Value like, int64_t dim, int64_t element) {
  if (!windows.inside || !like) return {};
  std::vector<Expr> shape(like.shape().size(), Expr(1));
  shape[dim] = windows.inside.shape()[0];
  shape[element] = windows.inside.shape()[1];
  return c.b.BroadcastTo(c.b.Reshape(windows.inside, shape), like.shape());
}

Value AverageCounts(OpContext& c, Value x, const Windows& w, const std::vector<Expr>& out, bool count_padding) {
  int rank = x.type().rank(), lead = rank - w.spatial;
  Value product;
  for (int i = 0; i < w.spatial; ++i) {
    Value count = AlongDim(c.b, CountAlong(c, w, i, x.shape()[lead + i], out[i], count_padding), rank, lead + i);
    product = product ? c.b.Mul(product, count) : count;
  }
  return product;
}

}  // namespace preheat::decompose
