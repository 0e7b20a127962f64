#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/ir/evaluate_ops.h"

namespace preheat::ir {
namespace {

// Sums of products before they are rounded or wrapped. Integers are exact modulo 2^64.
struct Sums {
  explicit Sums(const HostTensor& like)
      : is_float(IsFloat(like.dtype)), floats(is_float ? like.elements() : 0), ints(is_float ? 0 : like.elements()) {}
  void Add(int64_t to, const HostTensor& a, int64_t i, const HostTensor& b, int64_t j) {
    if (is_float) {
      floats[to] += a.Float(i) * b.Float(j);
    } else {
      ints[to] += static_cast<uint64_t>(a.Int(i)) * static_cast<uint64_t>(b.Int(j));
    }
  }
  void Store(HostTensor& out) const {
    for (size_t i = 0; i < floats.size(); ++i) out.SetFloat(i, floats[i]);
    for (size_t i = 0; i < ints.size(); ++i) out.SetInt(i, static_cast<int64_t>(ints[i]));
  }

  bool is_float;
  std::vector<double> floats;
  std::vector<uint64_t> ints;
};

Sums MatMul(const Evaluation& e, const HostTensor& out) {
  const HostTensor &a = e.in(0), &b = e.in(1);
  size_t rank = a.shape.size();
  int64_t m = a.shape[rank - 2], k = a.shape[rank - 1], n = b.shape[rank - 1];
  Sums sums(out);
  for (int64_t to = 0, count = out.elements(); to < count; ++to) {
    int64_t batch = to / (m * n), row = to / n % m, column = to % n;
    for (int64_t i = 0; i < k; ++i) sums.Add(to, a, (batch * m + row) * k + i, b, (batch * k + i) * n + column);
  }
  return sums;
}

// A convolution is a set of triples (element of x, of w, of y) with y += x * w. Calls f(x, w, y) for each; the
// gradients run over the same set.
template <typename F>
void ForEachProduct(const Node& node, const std::vector<int64_t>& x, const std::vector<int64_t>& w,
                    const std::vector<int64_t>& y, F f) {
  const std::vector<int64_t>&stride = node.Ints("stride"), &padding = node.Ints("padding"),
        &dilation = node.Ints("dilation");
  bool transposed = node.Int("transposed") != 0;
  int64_t groups = node.Int("groups");
  std::vector<int64_t> xs = HostStrides(x), ws = HostStrides(w), ys = HostStrides(y);
  size_t spatial = x.size() - 2;
  // The side that the stride walks over, whose positions are whole: y, or x of a transposed one.
  const std::vector<int64_t>&anchor = transposed ? x : y, &other = transposed ? y : x;
  int64_t ins = x[1] / groups, outs = y[1] / groups;
  std::vector<int64_t> walk = {x[0], groups, ins, outs};
  walk.insert(walk.end(), anchor.begin() + 2, anchor.end());
  walk.insert(walk.end(), w.begin() + 2, w.end());
  ForEachPosition(walk, [&](int64_t, absl::Span<const int64_t> at) {
    int64_t in = at[1] * ins + at[2], out = at[1] * outs + at[3];
    int64_t xi = at[0] * xs[0] + in * xs[1], yi = at[0] * ys[0] + out * ys[1];
    int64_t wi = transposed ? in * ws[0] + at[3] * ws[1] : out * ws[0] + at[2] * ws[1];
    for (size_t d = 0; d < spatial; ++d) {
      int64_t here = at[4 + d], tap = at[4 + spatial + d];
      int64_t there = here * stride[d] - padding[d] + tap * dilation[d];
      if (there < 0 || there >= other[d + 2]) return;
      xi += (transposed ? here : there) * xs[d + 2];
      yi += (transposed ? there : here) * ys[d + 2];
      wi += tap * ws[d + 2];
    }
    f(xi, wi, yi);
  });
}

Sums Conv(const Evaluation& e, const HostTensor& out) {
  Sums sums(out);
  ForEachProduct(e.node, e.in(0).shape, e.in(1).shape, out.shape,
                 [&](int64_t x, int64_t w, int64_t y) { sums.Add(y, e.in(0), x, e.in(1), w); });
  return sums;
}

Sums ConvGradInput(const Evaluation& e, const HostTensor& out) {
  Sums sums(out);
  ForEachProduct(e.node, out.shape, e.in(1).shape, e.in(0).shape,
                 [&](int64_t x, int64_t w, int64_t y) { sums.Add(x, e.in(0), y, e.in(1), w); });
  return sums;
}

Sums ConvGradWeight(const Evaluation& e, const HostTensor& out) {
  Sums sums(out);
  ForEachProduct(e.node, e.in(1).shape, out.shape, e.in(0).shape,
                 [&](int64_t x, int64_t w, int64_t y) { sums.Add(w, e.in(0), y, e.in(1), x); });
  return sums;
}

double Activation(const std::string& name, double x) {
  if (name == "relu") return x > 0 || std::isnan(x) ? x : 0;
  if (name == "gelu") return x * 0.5 * (1 + std::erf(x * std::sqrt(0.5)));
  if (name == "gelu_tanh") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  return 1 / (1 + std::exp(-x));  // sigmoid
}

Sums Fused(const Evaluation& e, const HostTensor& out) {
  bool conv = e.node.String("base") == "conv";
  Sums sums = conv ? Conv(e, out) : MatMul(e, out);
  std::vector<int64_t> strides = HostStrides(out.shape);
  size_t channel = conv ? 1 : out.shape.size() - 1;
  int next = 2;
  for (const std::string& step : e.node.Strings("epilogue")) {
    const HostTensor* extra = step == "bias" || step == "residual" ? &e.in(next++) : nullptr;
    for (int64_t i = 0, n = out.elements(); i < n; ++i) {
      double& value = sums.floats[i];
      if (extra == nullptr) {
        value = Activation(step, value);
      } else {
        value += extra->Float(step == "residual" ? i : i / strides[channel] % out.shape[channel]);
      }
    }
  }
  return sums;
}

}  // namespace

absl::Status EvaluateLibrary(Evaluation& e) {
  if (e.node.op() == Op::kFused && e.node.Has("scale")) return EvaluateAttention(e);
  HostTensor& out = e.out();
  switch (e.node.op()) {
    case Op::kMatMul: MatMul(e, out).Store(out); break;
    case Op::kConv: Conv(e, out).Store(out); break;
    case Op::kConvGradInput: ConvGradInput(e, out).Store(out); break;
    case Op::kConvGradWeight: ConvGradWeight(e, out).Store(out); break;
    default: Fused(e, out).Store(out); break;
  }
  return absl::OkStatus();
}

}  // namespace preheat::ir
