// Convolutions. They stay in their dtype; the bias is added after.

#include <utility>

#include "compiler/capture/decompose/conv_attrs.h"
#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/windows.h"

namespace preheat::decompose {

ir::Attrs ConvAttrs::ToAttrs() const {
  return {{"stride", stride},     {"padding", padding},
          {"dilation", dilation}, {"output_padding", output_padding},
          {"groups", groups},     {"transposed", int64_t{transposed}}};
}

ConvAttrs ReadConv(OpContext& c, int spatial) {
  std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  return {.stride = PerDim(c, "stride", spatial, ones),
          .padding = PerDim(c, "padding", spatial, zeros),
          .dilation = PerDim(c, "dilation", spatial, ones),
          .output_padding = PerDim(c, "output_padding", spatial, zeros),
          .groups = c.Int("groups", 1),
          .transposed = c.Bool("transposed", false)};
}

namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

void Convolve(OpContext& c, Value x, ConvAttrs attrs) {
  Value w = c.Tensor("weight");
  bool unbatched = RankOf(x) == RankOf(w) - 1;
  if (unbatched) x = c.b.Unsqueeze(x, 0);
  Value out = c.b.Emit(Op::kConv, {x, w}, attrs.ToAttrs());
  if (Value bias = c.OptionalTensor("bias"); bias && out) {
    DType dtype = out.dtype(), compute = ComputeType(dtype);
    Value channel = AlongDim(c.b, c.b.Cast(bias, compute), RankOf(out), 1);
    out = c.b.Cast(c.b.Add(c.b.Cast(out, compute), channel), dtype);
  }
  c.Set(unbatched ? c.b.Squeeze(out, 0) : out);
}

void Conv(OpContext& c) { Convolve(c, c.Tensor("input"), ReadConv(c, RankOf(c.Tensor("weight")) - 2)); }

void ConvTranspose(OpContext& c) {
  ConvAttrs attrs = ReadConv(c, RankOf(c.Tensor("weight")) - 2);
  attrs.transposed = true;
  Convolve(c, c.Tensor("input"), std::move(attrs));
}

// padding "valid" or "same": what is missing to keep the size, the odd element at the end.
void ConvNamedPadding(OpContext& c) {
  Value x = c.Tensor("input"), w = c.Tensor("weight");
  int spatial = RankOf(w) - 2;
  std::vector<int64_t> ones(std::max(spatial, 0), 1), zeros(std::max(spatial, 0), 0);
  ConvAttrs attrs{.stride = PerDim(c, "stride", spatial, ones),
                  .padding = zeros,
                  .dilation = PerDim(c, "dilation", spatial, ones),
                  .output_padding = zeros,
                  .groups = c.Int("groups", 1),
                  .transposed = false};
  if (!x || !w || spatial < 1 || c.Text("padding", "valid") == "valid") return Convolve(c, x, std::move(attrs));
  int lead = RankOf(x) - spatial;
  std::vector<Expr> low(RankOf(x), Expr(0)), high(RankOf(x), Expr(0));
  bool even = true;
  for (int i = 0; i < spatial; ++i) {
    std::optional<int64_t> kernel = w.shape()[2 + i].constant();
    if (!kernel) return c.Refuse("a kernel of symbolic size");
    int64_t total = attrs.dilation[i] * (*kernel - 1);
    attrs.padding[i] = total / 2;
    even = even && total % 2 == 0;
    low[lead + i] = total / 2;
    high[lead + i] = total - total / 2;
  }
  if (even) return Convolve(c, x, std::move(attrs));
  attrs.padding = zeros;
  ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, x.dtype()));
  Convolve(c, c.b.Emit(Op::kPad, {x}, {{"low", low}, {"high", high}, {"value", zero}}), std::move(attrs));
}

}  // namespace

OpTable ConvOps() {
  return {
      {"aten.conv1d.default", Conv},
      {"aten.conv2d.default", Conv},
      {"aten.conv3d.default", Conv},
      {"aten.convolution.default", Conv},
      {"aten._convolution.default", Conv},
      {"aten._convolution.deprecated", Conv},
      {"aten.conv1d.padding", ConvNamedPadding},
      {"aten.conv2d.padding", ConvNamedPadding},
      {"aten.conv3d.padding", ConvNamedPadding},
      {"aten.conv_transpose1d.default", ConvTranspose},
      {"aten.conv_transpose2d.input", ConvTranspose},
      {"aten.conv_transpose3d.input", ConvTranspose},
  };
}

}  // namespace preheat::decompose
