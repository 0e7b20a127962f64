// Attention as torch names it on a GPU, by the kernel that it would take: one library call, whichever it is. Dropout,
// gradients of masks and shapes that cuDNN's engines may not take stay torch's own.

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

constexpr int64_t kWidest = 128, kVector = 8;  // of a head, in elements: a multiple of what 16 bytes hold
constexpr int64_t kFewRows = 32;               // for fewer, torch's other kernels share the keys out among blocks

struct Attention {
  Value q, k, v;  // [batch, heads, rows, width]; k and v may have fewer heads
  Value mask;     // added to the scores; none: null
  double scale = 1;
  bool causal = false;
};

bool IsHead(Value x) {
  if (!x || x.type().rank() != 4) return false;
  if (x.dtype() != DType::kF16 && x.dtype() != DType::kBF16) return false;
  const std::optional<int64_t> width = x.shape()[3].constant();
  return width && *width > 0 && *width <= kWidest && *width % kVector == 0;
}

bool IsEmpty(const Expr& size) { return size.constant() == 0; }

// The heads of k and v are q's, or each for a group of them.
bool HeadsFit(const Attention& a) {
  const Expr &heads = a.q.shape()[1], &own = a.k.shape()[1];
  if (own != a.v.shape()[1]) return false;
  if (heads == own) return true;
  const std::optional<int64_t> all = heads.constant(), some = own.constant();
  return all && some && *some > 0 && *all % *some == 0;
}

// What torch's operators say and do beside what cuDNN's does.
struct Form {
  bool square = false;   // its causal mask is ours for as many rows as columns alone
  bool planned = false;  // torch makes a plan for each size too: with others, sizes that change cost it nothing
};

bool IsFixed(const Attention& a) {
  const std::vector<Expr>& q = a.q.shape();
  return q[0].is_constant() && q[1].is_constant() && q[2].is_constant() && a.k.shape()[2].is_constant();
}

std::optional<Attention> Read(OpContext& c, Form form) {
  Attention a{.q = c.Tensor("query"), .k = c.Tensor("key"), .v = c.Tensor("value"), .mask = {}};
  const auto refuse = [&](const char* why) {
    c.Refuse(why);
    return std::nullopt;
  };
  if (c.Double("dropout_p", 0) != 0) return refuse("dropout");
  if (c.Has("cum_seq_q") || c.Has("cum_seq_k")) return refuse("sequences of different lengths");
  if (c.Bool("return_debug_mask", false)) return refuse("a mask as result");
  if (!IsHead(a.q) || !IsHead(a.k) || !IsHead(a.v)) return refuse("no heads of 16-bit floats, 8 to 128 wide");
  if (a.q.shape()[3] != a.k.shape()[3] || a.q.shape()[3] != a.v.shape()[3]) return refuse("widths that differ");
  if (a.q.dtype() != a.k.dtype() || a.q.dtype() != a.v.dtype()) return refuse("dtypes that differ");
  if (a.q.shape()[0] != a.k.shape()[0] || a.k.shape()[0] != a.v.shape()[0]) return refuse("batches that differ");
  if (!HeadsFit(a)) return refuse("heads that do not go into groups");
  if (a.k.shape()[2] != a.v.shape()[2]) return refuse("keys without values");
  if (IsEmpty(a.k.shape()[2])) return refuse("no keys");
  if (!form.planned && !IsFixed(a)) return refuse("sizes that change, for each of which cuDNN would make a plan");
  if (!form.planned && *a.q.shape()[2].constant() < kFewRows) return refuse("few rows");
  if (c.Has("attn_bias")) {
    const Value mask = c.Tensor("attn_bias");
    if (!mask || mask.dtype() != a.q.dtype()) return refuse("a mask of another type");
    const std::vector<Expr>&q = a.q.shape(), scores = {q[0], q[1], q[2], a.k.shape()[2]};
    a.mask = c.b.BroadcastTo(mask, scores);
    if (!a.mask) return std::nullopt;
  }
  a.causal = c.Bool("is_causal", false);
  if (a.causal && form.square && a.q.shape()[2] != a.k.shape()[2]) return refuse("a causal mask from the last row up");
  a.scale = c.Double("scale", 1 / std::sqrt(static_cast<double>(*a.q.shape()[3].constant())));
  return a;
}

std::vector<Value> Emit(OpContext& c, const Attention& a, std::string base, std::vector<Value> extras,
                        std::vector<std::string> steps, std::vector<TensorType> types) {
  std::vector<Value> operands = {a.q, c.b.Transpose(a.k, -2, -1)};
  if (a.mask) operands.push_back(a.mask);
  operands.insert(operands.end(), extras.begin(), extras.end());
  if (a.causal) steps.insert(steps.begin(), "causal");
  if (a.mask) steps.insert(steps.begin(), "mask");
  ir::Attrs attrs = {{"base", std::move(base)}, {"scale", a.scale}, {"epilogue", std::move(steps)}};
  return c.b.EmitAll(Op::kFused, operands, std::move(attrs), std::move(types));
}

// [b, h, m] or longer, of which the first m count -> [b, h, m, 1].
Value AsColumn(OpContext& c, Value sums, Value q) {
  std::vector<Expr> shape(q.shape().begin(), q.shape().end() - 1);
  shape.emplace_back(1);
  if (!sums) return sums;
  if (sums.type().rank() == 3 && sums.shape()[2] != q.shape()[2]) {
    sums = c.b.SliceDim(sums, 2, Expr(0), q.shape()[2]);
  }
  return c.b.Reshape(sums, shape);
}

// The log sums in the form that the operator declares: [b, h, m, 1], [b, h, m], or padded to a multiple of 32 rows.
Value AsDeclared(OpContext& c, Value sums, const TensorType& declared) {
  if (declared.rank() == 4) return sums;
  sums = c.b.Squeeze(sums, -1);
  if (!sums || declared.shape[2] == sums.shape()[2]) return sums;
  const std::vector<Expr> none(3, Expr(0));
  std::vector<Expr> high = none;
  high[2] = declared.shape[2] - sums.shape()[2];
  return c.b.Emit(Op::kPad, {sums}, {{"low", none}, {"high", std::move(high)}, {"value", 0.0}});
}

// Without dropout nobody draws numbers: the states of the generator that the gradient is handed are zeros.
void SetStates(OpContext& c, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    if (c.Wanted(i)) c.Set(i, c.Fill(0, c.ResultType(i).dtype, c.ResultShape(i)));
  }
}

LowerFn Forward(int states, int num_states, Form form) {
  return [=](OpContext& c) {
    const std::optional<Attention> a = Read(c, form);
    if (!a) return;
    const TensorType result = a->q.type();
    TensorType sums{DType::kF32, result.shape};
    sums.shape.back() = Expr(1);
    std::vector<TensorType> types = {result};
    if (c.Wanted(1)) types.push_back(sums);
    const std::vector<Value> results = Emit(c, *a, "attention", {a->v}, {"softmax", "values"}, std::move(types));
    if (results.empty()) return;
    c.Set(0, results[0]);
    if (c.Wanted(1)) c.Set(1, AsDeclared(c, results[1], c.ResultType(1)));
    SetStates(c, states, num_states);
  };
}

LowerFn Backward(const char* gradient, Form form) {
  return [=](OpContext& c) {
    const std::optional<Attention> a = Read(c, form);
    if (!a) return;
    if (c.Wanted(3)) return c.Refuse("the gradient of a mask");
    const Value g = c.Tensor(gradient), out = c.Tensor("out");
    if (!g || !out || g.dtype() != a->q.dtype() || out.dtype() != a->q.dtype()) return c.Refuse("dtypes that differ");
    const std::vector<Value> extras = {a->v, g, out, AsColumn(c, c.Tensor("logsumexp"), a->q)};
    const std::vector<Value> results =
        Emit(c, *a, "attention_grad", extras, {"values", "gradient", "output", "log_sums"},
             {a->q.type(), a->k.type(), a->v.type()});
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      if (c.Wanted(i)) c.Set(i, results[static_cast<size_t>(i)]);
    }
  };
}

}  // namespace

OpTable GpuAttentionOps() {
  constexpr Form kCudnn{.planned = true}, kFlash{.square = true}, kEfficient{};
  return {
      {"aten._scaled_dot_product_cudnn_attention.default", Forward(6, 2, kCudnn)},
      {"aten._scaled_dot_product_cudnn_attention_backward.default", Backward("grad_out", kCudnn)},
      {"aten._scaled_dot_product_flash_attention.default", Forward(6, 2, kFlash)},
      {"aten._scaled_dot_product_flash_attention_backward.default", Backward("grad_out", kFlash)},
      {"aten._scaled_dot_product_efficient_attention.default", Forward(2, 2, kEfficient)},
      {"aten._scaled_dot_product_efficient_attention_backward.default", Backward("grad_out_", kEfficient)},
  };
}

}  // namespace preheat::decompose
