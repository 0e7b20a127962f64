// Gradients of convolution, pooling and attention.

#include <limits>
#include <utility>

#include "compiler/capture/decompose/attention.h"
#include "compiler/capture/decompose/conv_attrs.h"
#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/max_pool_grad.h"
#include "compiler/capture/decompose/products.h"
#include "compiler/capture/decompose/windows.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

void ConvolutionGrad(OpContext& c) {
  Value g = c.Tensor("grad_output"), x = c.Tensor("input"), w = c.Tensor("weight");
  if (RankOf(x) != RankOf(w) || !g) return c.Refuse("an unbatched image");
  ir::Attrs attrs = ReadConv(c, RankOf(w) - 2).ToAttrs();
  if (c.Wanted(0)) c.Set(0, c.b.Emit(Op::kConvGradInput, {g, w}, attrs, {x.type()}));
  if (c.Wanted(1)) c.Set(1, c.b.Emit(Op::kConvGradWeight, {g, x}, attrs, {w.type()}));
  if (!c.Wanted(2)) return;
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < RankOf(g); ++i) {
    if (i != 1) dims.push_back(i);
  }
  c.Set(2, c.b.Reduce(Op::kReduceSum, c.b.Cast(g, ComputeType(g.dtype())), dims, false));
}

// Zeros between the elements of a dimension, `stride` - 1 of them.
Value Spread(OpContext& c, Value x, int64_t dim, int64_t stride) {
  if (stride == 1 || !x) return x;
  std::vector<Expr> shape = x.shape(), low(RankOf(x) + 1, Expr(0)), high = low;
  high[dim + 1] = stride - 1;
  ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, x.dtype()));
  Value wide = c.b.Emit(Op::kPad, {c.b.Unsqueeze(x, dim + 1)}, {{"low", low}, {"high", high}, {"value", zero}});
  shape[dim] = shape[dim] * stride;
  return c.b.SliceDim(c.b.Reshape(wide, shape), dim, 0, shape[dim] - (stride - 1));
}

// The sum, for each element of a dimension of `size`, of the windows that cover it.
Value SumOfWindows(OpContext& c, Value g, int64_t dim, const Windows& w, int i, const Expr& size) {
  Value spread = Spread(c, g, dim, w.stride[i]);
  if (!spread) return spread;
  int64_t kernel = w.kernel[i], before = kernel - 1 - w.padding[i];
  if (before < 0) {
    c.Refuse("padding wider than the window");
    return {};
  }
  Expr after = size + kernel - 1 - before - spread.shape()[dim];
  std::vector<Expr> low(RankOf(g), Expr(0)), high(RankOf(g), Expr(0));
  low[dim] = before;
  high[dim] = Expr::Max(after, 0);
  ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, g.dtype()));
  Value padded = c.b.Emit(Op::kPad, {spread}, {{"low", low}, {"high", high}, {"value", zero}});
  padded = c.b.SliceDim(padded, dim, 0, size + kernel - 1);
  Value windows =
      c.b.Emit(Op::kWindow, {padded}, {{"dim", dim}, {"size", kernel}, {"step", int64_t{1}}, {"dilation", int64_t{1}}});
  return c.b.Reduce(Op::kReduceSum, windows, {RankOf(g)}, false);
}

LowerFn AvgPoolGrad(int spatial) {
  return [spatial](OpContext& c) {
    Value g = c.Operand("grad_output", ComputeType(c.ResultType().dtype)), x = c.Tensor("self");
    if (RankOf(x) < spatial || !g) return c.Refuse("too few dimensions");
    Windows w = ReadWindows(c, spatial);
    bool count_padding = c.Bool("count_include_pad", true);
    std::vector<Expr> out(g.shape().end() - spatial, g.shape().end());
    if (c.Has("divisor_override")) {
      g = c.b.Binary(Op::kDiv, g, Scalar(c.Double("divisor_override", 1)));
    } else {
      g = c.b.Div(g, c.b.Cast(AverageCounts(c, x, w, out, count_padding), g.dtype()));
    }
    for (int i = 0; i < spatial; ++i) {
      int64_t dim = RankOf(x) - spatial + i;
      g = SumOfWindows(c, g, dim, w, i, x.shape()[dim]);
    }
    c.Set(g);
  };
}

// Of windows of unequal size: each adds its share to its elements.
Value UnevenAverageGrad(OpContext& c, Value g, int64_t dim, int64_t in, int64_t out) {
  UnevenWindows windows = CutUneven(c, in, out);
  Value share = c.b.Div(g, AlongDim(c.b, c.b.Cast(windows.count, g.dtype()), RankOf(g), dim));
  Value wide = c.b.Unsqueeze(share, dim + 1);
  if (!wide || !windows.index) return {};
  std::vector<Expr> shape = wide.shape(), whole = g.shape();
  shape[dim + 1] = windows.index.shape()[1];
  whole[dim] = in;
  wide = c.b.BroadcastTo(wide, shape);
  Value mask = InsideMask(c, windows, wide, dim, dim + 1);
  Value shares = c.b.Where(mask, wide, Like(c.b, wide, 0));
  return c.b.Emit(Op::kPutRows, {c.Fill(0, g.dtype(), whole), windows.index, shares},
                  {{"dim", dim}, {"reduce", std::string("add")}});
}

// Windows that tile the input: each element has one.
Value TiledAverageGrad(OpContext& c, Value g, int64_t dim, const Expr& in, const Expr& size) {
  std::vector<Expr> merged = g.shape();
  merged[dim] = in;
  Value wide = c.b.Unsqueeze(DivBySize(c.b, g, size), dim + 1);
  if (!wide) return {};
  std::vector<Expr> split = wide.shape();
  split[dim + 1] = size;
  return c.b.Reshape(c.b.BroadcastTo(wide, split), merged);
}

LowerFn AdaptiveAvgPoolGrad(int spatial) {
  return [spatial](OpContext& c) {
    Value g = c.Operand("grad_output", ComputeType(c.ResultType().dtype)), x = c.Tensor("self");
    if (RankOf(x) < spatial || !g) return c.Refuse("too few dimensions");
    for (int i = 0; i < spatial && g; ++i) {
      int64_t dim = RankOf(x) - spatial + i;
      const Expr in = x.shape()[dim], out = g.shape()[dim];
      std::optional<int64_t> n = in.constant(), m = out.constant();
      if (out == Expr(1)) {
        g = TiledAverageGrad(c, g, dim, in, in);
      } else if (n && m && *m > 0) {
        g = *n % *m == 0 ? TiledAverageGrad(c, g, dim, in, *n / *m) : UnevenAverageGrad(c, g, dim, *n, *m);
      } else {
        return c.Refuse("a symbolic size");
      }
    }
    c.Set(g);
  };
}

// The gradient of a value whose heads each served a group: [b, h*groups, s, e] -> [b, h, s, e].
Value SumGroups(OpContext& c, Value gradient, const char* name) {
  Value of = c.Tensor(name);
  if (!gradient || !of || of.type().rank() < 3) return gradient;
  const int64_t dim = of.type().rank() - 3;
  const Expr own = of.shape()[dim], heads = gradient.shape()[dim];
  if (own == heads) return gradient;
  std::vector<Expr> split = gradient.shape();
  split[dim] = own;
  split.insert(split.begin() + dim + 1, Expr::FloorDiv(heads, own));
  return c.b.Reduce(Op::kReduceSum, c.b.Reshape(gradient, split), {dim + 1}, false);
}

// P = exp(S - logsumexp), O = P V. dV = P' dO; dP = dO V'; dS = P (dP - sum(dO O)); dQ = dS K scale; dK = dS' Q scale.
// From the row sums and the output that the forward operator kept, as eager does: no second softmax, and the same
// answer for whatever values are handed in.
void AttentionGrad(OpContext& c) {
  Attention a = ReadAttention(c);
  Builder& b = c.b;
  if (!a.scores) return;
  int64_t last = RankOf(a.scores) - 1;
  Value g = b.Cast(c.Tensor("grad_out"), a.q.dtype()), out = b.Cast(c.Tensor("out"), a.q.dtype());
  Value sums = b.Unsqueeze(b.Cast(c.Tensor("logsumexp"), a.q.dtype()), last);
  Value unseen = Like(b, a.scores, -std::numeric_limits<double>::infinity());
  Value weights =
      b.Where(b.Emit(Op::kEq, {a.scores, unseen}), Like(b, a.scores, 0), b.Unary(Op::kExp, b.Sub(a.scores, sums)));
  if (!weights) return;
  if (c.Wanted(2)) c.Set(2, SumGroups(c, MatMulBroadcast(b, b.Transpose(weights, -2, -1), g), "value"));
  Value dp = MatMulBroadcast(b, g, b.Transpose(a.v, -2, -1));
  Value ds = b.Mul(weights, b.Sub(dp, b.Reduce(Op::kReduceSum, b.Mul(g, out), {last}, true)));
  Value scaled = b.Mul(ds, a.scale);
  if (c.Wanted(0)) c.Set(0, MatMulBroadcast(b, scaled, a.k));
  if (c.Wanted(1)) c.Set(1, SumGroups(c, MatMulBroadcast(b, b.Transpose(scaled, -2, -1), a.q), "key"));
}

}  // namespace

OpTable BackwardWindowOps() {
  return {
      {"aten.convolution_backward.default", ConvolutionGrad},
      {"aten.max_pool2d_with_indices_backward.default", MaxPoolGrad(2)},
      {"aten.max_pool3d_with_indices_backward.default", MaxPoolGrad(3)},
      {"aten.adaptive_max_pool2d_backward.default", MaxPoolGrad(2)},
      {"aten.adaptive_max_pool3d_backward.default", MaxPoolGrad(3)},
      {"aten.avg_pool2d_backward.default", AvgPoolGrad(2)},
      {"aten.avg_pool3d_backward.default", AvgPoolGrad(3)},
      {"aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolGrad(2)},
      {"aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPoolGrad(3)},
      {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", AttentionGrad},
  };
}

}  // namespace preheat::decompose
