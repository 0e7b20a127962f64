#include "compiler/capture/decompose/max_pool_grad.h"

#include <vector>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/windows.h"

namespace preheat::decompose {
namespace {

using ir::Builder;

constexpr int64_t kMostWindowsOver = 16;  // an element; more are scattered

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// [..., s...] as [..., product of s].
std::vector<Expr> Flat(const std::vector<Expr>& shape, int spatial) {
  std::vector<Expr> flat(shape.begin(), shape.end() - spatial), last(shape.end() - spatial, shape.end());
  flat.push_back(ir::NumElements(last));
  return flat;
}

// For each position of a dimension the window that lies `back` before the last one over it, and whether there is one.
struct Over {
  Value window;  // of those there are
  Value is;
};

Over WindowOver(Builder& b, const Expr& size, const Expr& windows, int64_t stride, int64_t padding, int64_t back) {
  Value place = b.Binary(Op::kAdd, b.Iota(DType::kI64, {size}, 0), padding);
  Value window = b.Binary(Op::kSub, b.Binary(Op::kFloorDiv, place, stride), back);
  Value first = b.Binary(Op::kMax, window, int64_t{0});
  Value there = b.Binary(Op::kMin, first, b.BroadcastTo(b.Size(windows - 1), {size}));
  return {there, b.Binary(Op::kEq, window, there)};
}

// What is asked, and how many windows lie over an element, by dimension.
struct Pooling {
  Windows windows;
  std::vector<Expr> in, out;  // height and width
  int64_t down = 1, along = 1;
};

std::optional<Pooling> ReadPooling(OpContext& c, Value g, Value x) {
  const capture::AtenType* declared = c.Declared("self");
  if (declared == nullptr || declared->device_type != "cuda" || !c.Has("kernel_size")) return std::nullopt;
  Pooling p{ReadWindows(c, 2), {x.shape().end() - 2, x.shape().end()}, {g.shape().end() - 2, g.shape().end()}};
  p.down = (p.windows.kernel[0] - 1) / p.windows.stride[0] + 1;
  p.along = (p.windows.kernel[1] - 1) / p.windows.stride[1] + 1;
  const bool served = p.windows.dilation == std::vector<int64_t>{1, 1} && p.down * p.along <= kMostWindowsOver;
  return served ? std::optional(p) : std::nullopt;
}

// By flat place in the plane: the window `down` and `along` before the last one over it, and whether there is one.
Over PlaneOver(Builder& b, const Pooling& p, int64_t down, int64_t along) {
  const Windows& w = p.windows;
  const Over y = WindowOver(b, p.in[0], p.out[0], w.stride[0], w.padding[0], down);
  const Over x = WindowOver(b, p.in[1], p.out[1], w.stride[1], w.padding[1], along);
  const auto both = [&](Op op, Value rows, Value columns) {
    return b.Reshape(b.Binary(op, AlongDim(b, rows, 2, 0), AlongDim(b, columns, 2, 1)), {p.in[0] * p.in[1]});
  };
  const Value before = b.Mul(y.window, b.BroadcastTo(b.Size(p.out[1]), {p.in[0]}));
  return {both(Op::kAdd, before, x.window), both(Op::kAnd, y.is, x.is)};
}

Value Gathered(OpContext& c, const Pooling& p, Value g, Value index, Value x) {
  Builder& b = c.b;
  const int64_t dim = RankOf(x) - 2;
  g = b.Reshape(g, Flat(g.shape(), 2));
  index = b.Reshape(index, Flat(index.shape(), 2));
  const Value place = b.Iota(DType::kI64, {p.in[0] * p.in[1]}, 0);
  const Value none = c.Fill(0, g.dtype(), Flat(x.shape(), 2));
  Value sum;
  for (int64_t i = 0; i < p.down * p.along; ++i) {
    const Over over = PlaneOver(b, p, i / p.along, i % p.along);
    const auto at = [&](Value v) { return b.Emit(Op::kTake, {v, over.window}, {{"dim", dim}}); };
    const Value is = b.Binary(Op::kAnd, b.Binary(Op::kEq, at(index), place), over.is);
    const Value share = b.Where(is, at(g), none);
    if (!share) return {};
    sum = sum ? b.Add(sum, share) : share;
  }
  return b.Reshape(sum, x.shape());
}

Value Scattered(OpContext& c, Value g, Value index, Value x, int spatial) {
  const int64_t dim = RankOf(x) - spatial;
  const Value zeros = c.Fill(0, g.dtype(), Flat(x.shape(), spatial));
  const Value put = c.b.Emit(
      Op::kScatter, {zeros, c.b.Reshape(index, Flat(index.shape(), spatial)), c.b.Reshape(g, Flat(g.shape(), spatial))},
      {{"dim", dim}, {"reduce", std::string("add")}});
  return c.b.Reshape(put, x.shape());
}

}  // namespace

LowerFn MaxPoolGrad(int spatial) {
  return [spatial](OpContext& c) {
    const Value g = c.Operand("grad_output", ComputeType(c.ResultType().dtype)), index = c.Tensor("indices"),
                x = c.Tensor("self");
    if (RankOf(x) < spatial || !g || !index) return c.Refuse("too few dimensions");
    const std::optional<Pooling> pooling = spatial == 2 ? ReadPooling(c, g, x) : std::nullopt;
    c.Set(pooling ? Gathered(c, *pooling, g, index, x) : Scattered(c, g, index, x, spatial));
  };
}

}  // namespace preheat::decompose
