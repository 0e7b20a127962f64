#include "compiler/reference/gpu_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace preheat::reference {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// q, k and v in the dtype that is computed in, k and v with as many heads as q.
struct Heads {
  Tensor q, k, v;
  double scale;
  int64_t groups;
};

Tensor Wide(const Tensor& t) { return at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t; }
Tensor Rounded(const Tensor& t, const Tensor& like) { return Wide(t.to(like.scalar_type())); }

Heads HeadsOf(const Tensor& q, const Tensor& k, const Tensor& v, std::optional<double> scale) {
  const int64_t groups = q.size(1) / k.size(1);
  const auto repeated = [&](const Tensor& t) { return groups == 1 ? Wide(t) : Wide(t).repeat_interleave(groups, 1); };
  return {Wide(q), repeated(k), repeated(v), scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3)))), groups};
}

// `diagonal`: row i sees the columns up to i + diagonal.
Tensor Scores(const Heads& h, const OptionalTensor& bias, bool causal, int64_t diagonal) {
  Tensor scores = at::matmul(h.q, h.k.transpose(-2, -1)) * h.scale;
  if (bias && bias->defined()) scores = scores + Wide(*bias);
  if (!causal) return scores;
  const Tensor hidden = at::ones_like(scores, at::kBool).triu(diagonal + 1);
  return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

// The output and the log sums, [b, h, m].
std::pair<Tensor, Tensor> Forward(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& bias,
                                  double dropout, bool causal, std::optional<double> scale, int64_t diagonal = 0) {
  TORCH_CHECK(dropout == 0, "the reference has no dropout of a GPU's");
  const Heads h = HeadsOf(q, k, v, scale);
  const Tensor scores = Scores(h, bias, causal, diagonal), sums = scores.logsumexp(-1);
  const Tensor weights = (scores - sums.unsqueeze(-1)).exp();
  return {at::matmul(Rounded(weights, q), h.v).to(q.scalar_type()), sums};
}

Tensor OfHeads(const Tensor& gradient, const Heads& h, const Tensor& like) {
  if (h.groups == 1) return gradient.to(like.scalar_type());
  return gradient.unflatten(1, {like.size(1), h.groups}).sum(2).to(like.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor> Backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                            const OptionalTensor& bias, const Tensor& out, const Tensor& sums,
                                            double dropout, bool causal, std::optional<double> scale,
                                            int64_t diagonal = 0) {
  TORCH_CHECK(dropout == 0, "the reference has no dropout of a GPU's");
  const Heads h = HeadsOf(q, k, v, scale);
  const Tensor g = Wide(gradient);
  const Tensor column = sums.flatten(2).narrow(2, 0, q.size(2)).unsqueeze(-1);
  const Tensor weights = (Scores(h, bias, causal, diagonal) - column).exp();
  const Tensor dv = at::matmul(Rounded(weights, q).transpose(-2, -1), g);
  const Tensor dots = (g * Wide(out)).sum(-1, /*keepdim=*/true);
  const Tensor ds = Rounded(weights * (at::matmul(g, h.v.transpose(-2, -1)) - dots) * h.scale, q);
  return {at::matmul(ds, h.k).to(q.scalar_type()), OfHeads(at::matmul(ds.transpose(-2, -1), h.q), h, k),
          OfHeads(dv, h, v)};
}

Tensor State() { return at::zeros({}, at::kLong); }

using WithLengths = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

WithLengths Cudnn(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& bias, bool, double dropout,
                  bool causal, bool, std::optional<double> scale) {
  const auto [out, sums] = Forward(q, k, v, bias, dropout, causal, scale);
  return {out, sums.unsqueeze(-1), Tensor(), Tensor(), q.size(2), k.size(2), State(), State(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> CudnnBackward(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                                 const Tensor& v, const Tensor& out, const Tensor& sums, const Tensor&,
                                                 const Tensor&, const Tensor& bias, const Tensor&, const Tensor&,
                                                 c10::SymInt, c10::SymInt, double dropout, bool causal,
                                                 std::optional<double> scale) {
  return Backward(gradient, q, k, v, bias, out, sums, dropout, causal, scale);
}

// Its causal mask ends at the last row and column.
WithLengths Flash(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool,
                  std::optional<double> scale) {
  const auto [out, sums] = Forward(q, k, v, {}, dropout, causal, scale, k.size(2) - q.size(2));
  const Tensor state = at::zeros({2}, at::kLong);
  return {out, sums, Tensor(), Tensor(), q.size(2), k.size(2), state, State(), at::empty({0}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor> FlashBackward(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                                 const Tensor& v, const Tensor& out, const Tensor& sums, const Tensor&,
                                                 const Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal,
                                                 const Tensor&, const Tensor&, std::optional<double> scale) {
  return Backward(gradient, q, k, v, {}, out, sums, dropout, causal, scale, k.size(2) - q.size(2));
}

// Log sums are padded to a multiple of 32 rows.
std::tuple<Tensor, Tensor, Tensor, Tensor> Efficient(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const OptionalTensor& bias, bool wanted, double dropout,
                                                     bool causal, std::optional<double> scale) {
  const auto [out, sums] = Forward(q, k, v, bias, dropout, causal, scale);
  const Tensor padded = at::constant_pad_nd(sums, {0, (32 - q.size(2) % 32) % 32});
  return {out, wanted ? padded : sums.narrow(2, 0, 0), State(), State()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> EfficientBackward(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                                             const Tensor& v, const Tensor& bias, const Tensor& out,
                                                             const Tensor& sums, const Tensor&, const Tensor&,
                                                             double dropout, std::array<bool, 4> wanted, bool causal,
                                                             std::optional<double> scale) {
  TORCH_CHECK(!wanted[3], "the reference has no gradient of a mask");
  const auto [dq, dk, dv] = Backward(gradient, q, k, v, bias, out, sums, dropout, causal, scale);
  return {dq, dk, dv, Tensor()};
}

}  // namespace

void DefineGpuAttention() {
  static torch::Library* library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    made->impl("_scaled_dot_product_cudnn_attention", TORCH_FN(Cudnn));
    made->impl("_scaled_dot_product_cudnn_attention_backward", TORCH_FN(CudnnBackward));
    made->impl("_scaled_dot_product_flash_attention", TORCH_FN(Flash));
    made->impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(FlashBackward));
    made->impl("_scaled_dot_product_efficient_attention", TORCH_FN(Efficient));
    made->impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(EfficientBackward));
    return made;
  }();
  (void)library;
}

}  // namespace preheat::reference
