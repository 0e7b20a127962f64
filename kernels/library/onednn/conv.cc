#include <algorithm>

#include "kernels/library/onednn/prepare.h"

namespace preheat::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

// x, w and y of a convolution as oneDNN describes them, and what it reads beside them.
struct Geometry {
  Desc x, w, y;              // the caller's memory
  Desc x_any, w_any, y_any;  // the same sizes, the primitive chooses how they lie
  Dims stride, dilation, padding_low, padding_high;
  bool channels_last = false;  // x_any and y_any are that
};

Dims SizesOf(const preheat_lib_tensor& t) { return Dims(t.sizes, t.sizes + t.rank); }
Dims StridesOf(const preheat_lib_tensor& t) { return Dims(t.strides, t.strides + t.rank); }

bool ChannelsLast(const preheat_lib_tensor& t) {
  if (t.sizes[1] == 1 || t.strides[1] != 1) return false;
  int64_t next = t.sizes[1];
  for (int d = t.rank - 1; d >= 2; next *= t.sizes[d--]) {
    if (t.sizes[d] > 1 && t.strides[d] != next) return false;
  }
  return t.sizes[0] == 1 || t.strides[0] == next;
}

// The activation with channels last.
Desc LastTagged(const preheat_lib_tensor& t) {
  constexpr Tag kTags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  return Desc(SizesOf(t), TypeOf(t.dtype), kTags[t.rank - 3]);
}

// An activation's memory.
Desc Activation(const preheat_lib_tensor& t) {
  if (ChannelsLast(t)) return LastTagged(t);
  return Strided(SizesOf(t), StridesOf(t), TypeOf(t.dtype));
}

// oneDNN's weights have the groups as a dimension of their own.
void SplitGroups(const preheat_lib_tensor& w, int64_t groups, Dims& sizes, Dims& strides) {
  sizes = SizesOf(w);
  strides = StridesOf(w);
  if (groups == 1) return;
  sizes[0] /= groups;
  sizes.insert(sizes.begin(), groups);
  strides.insert(strides.begin(), strides[0] * sizes[1]);
}

void DeclineBroadcast(const preheat_lib_tensor& t) {
  for (int d = 0; d < t.rank; ++d) {
    if (t.sizes[d] > 1 && t.strides[d] == 0) throw Declined{"a broadcast operand"};
  }
}

// Some window sees padding alone. There the kernels of oneDNN 2.6 apply activations whose constants they have not
// loaded.
bool SeesPaddingAlone(const preheat_lib_call& call, int d, int64_t in, int64_t window, int64_t out) {
  const int64_t dilation = call.dilation[d];
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * call.stride[d] - call.padding[d];
    // The first tap at or after the input's first element.
    const int64_t tap = first >= 0 ? 0 : (-first + dilation - 1) / dilation;
    if (tap >= window || first + tap * dilation >= in) return true;
  }
  return false;
}

void AnyActivations(Geometry& g, const preheat_lib_tensor& x, const preheat_lib_tensor& y) {
  g.x_any = Desc(SizesOf(x), TypeOf(x.dtype), Tag::any);
  g.y_any = Desc(SizesOf(y), TypeOf(y.dtype), Tag::any);
  g.channels_last = false;
}

// Row-major activations are copied in any case. In blocks of a vector's channels that is cheap, and the kernels for
// them sum each block by itself: over 128 channels the result is 2.6 times nearer to the exact one than that of the
// kernels for channels last, which oneDNN 2.6 would choose, in the same time. Other numbers of channels, in
// all or in a group, would be padded.
bool FillsBlocks(const preheat_lib_call& call) {
  constexpr int64_t kBlock = 16, kFewChannels = 3;
  const int64_t in = call.operands[0].sizes[1] / call.groups, out = call.result.sizes[1] / call.groups;
  return TypeOf(call.result.dtype) == dnnl::memory::data_type::f32 && out % kBlock == 0 &&
         (in % kBlock == 0 || (in <= kFewChannels && call.groups == 1));
}

// An image of few channels stays row-major.
Geometry InBlocks(Geometry g, const preheat_lib_tensor& x, const preheat_lib_tensor& y) {
  constexpr Tag kBlocked[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c}, kPlain[] = {Tag::ncw, Tag::nchw, Tag::ncdhw};
  g.x_any = Desc(SizesOf(x), TypeOf(x.dtype), (x.sizes[1] % 16 == 0 ? kBlocked : kPlain)[x.rank - 3]);
  g.y_any = Desc(SizesOf(y), TypeOf(y.dtype), kBlocked[y.rank - 3]);
  return g;
}

Geometry MakeGeometry(const preheat_lib_call& call, const preheat_lib_tensor& x, const preheat_lib_tensor& w,
                      const preheat_lib_tensor& y) {
  const dnnl::memory::data_type type = TypeOf(call.result.dtype);
  for (const preheat_lib_tensor* t : {&x, &w, &y}) DeclineBroadcast(*t);
  Geometry g;
  Dims w_sizes, w_strides;
  SplitGroups(w, call.groups, w_sizes, w_strides);
  g.x = Activation(x);
  g.w = Strided(w_sizes, w_strides, type);
  g.y = Activation(y);
  g.w_any = Desc(w_sizes, type, Tag::any);
  AnyActivations(g, x, y);
  // One side with channels last is enough: the other is copied then, which is an image of few channels as a rule.
  g.channels_last = ChannelsLast(x) || ChannelsLast(y);
  if (g.channels_last) {
    g.x_any = LastTagged(x);
    g.y_any = LastTagged(y);
  }
  for (int d = 0; d < call.spatial; ++d) {
    if (SeesPaddingAlone(call, d, x.sizes[d + 2], w.sizes[d + 2], y.sizes[d + 2]))
      throw Declined{"a window of padding"};
    const int64_t span = call.dilation[d] * (w.sizes[d + 2] - 1) + 1;
    g.stride.push_back(call.stride[d]);
    g.dilation.push_back(call.dilation[d] - 1);  // oneDNN counts the gap
    g.padding_low.push_back(call.padding[d]);
    // What the last window needs, which may be less than the padding (or none of the input's end).
    const int64_t high = (y.sizes[d + 2] - 1) * call.stride[d] + span - x.sizes[d + 2] - call.padding[d];
    g.padding_high.push_back(high);
  }
  return g;
}

using Forward = dnnl::convolution_forward;

Forward::primitive_desc MakeForward(const Geometry& g, const Desc& x, const Desc& w, const Desc& y,
                                    const Epilogues* epilogues) {
  const dnnl::algorithm direct = dnnl::algorithm::convolution_direct;
  const dnnl::prop_kind kind = dnnl::prop_kind::forward_inference;
  const Forward::desc desc =
      epilogues != nullptr && epilogues->bias
          ? Forward::desc(kind, direct, x, w, epilogues->bias_desc, y, g.stride, g.dilation, g.padding_low,
                          g.padding_high)
          : Forward::desc(kind, direct, x, w, y, g.stride, g.dilation, g.padding_low, g.padding_high);
  if (epilogues != nullptr) return Forward::primitive_desc(desc, epilogues->attr, Engine());
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return Forward::primitive_desc(desc, attr, Engine());
}

dnnl::primitive_attr UserScratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Argument Operand(int number, int dnnl_arg, const Desc& given, const Desc& used, bool frozen) {
  return {Argument::Role::kOperand, number, dnnl_arg, given, used, frozen && given != used};
}

// Null where oneDNN has no fast kernel for these layouts.
template <typename Make>
std::unique_ptr<Prepared> Tried(const Geometry& g, const Make& make) {
  try {
    return make(g);
  } catch (const Declined&) {
  } catch (const dnnl::error&) {
  }
  return nullptr;
}

// With channels last if oneDNN has a fast kernel for that, else as oneDNN likes best.
template <typename Make>
std::unique_ptr<Prepared> ChannelsLastOrAny(Geometry g, const preheat_lib_tensor& x, const preheat_lib_tensor& y,
                                            const Make& make) {
  if (g.channels_last) {
    if (std::unique_ptr<Prepared> made = Tried(g, make)) return made;
    AnyActivations(g, x, y);
  }
  return make(g);
}

std::unique_ptr<Prepared> Convolution(const preheat_lib_call& call, const Geometry& g) {
  // First without epilogues: how the result lies must be known before residuals can be said to lie like it.
  const Forward::primitive_desc chosen = MakeForward(g, g.x_any, g.w_any, g.y_any, nullptr);
  DeclineReference(chosen);
  std::vector<Desc> residuals;
  for (int i = 0; i < call.num_epilogue; ++i) {
    const preheat_lib_tensor& t = call.epilogue[i].operand;
    residuals.push_back(call.epilogue[i].op == PREHEAT_LIB_RESIDUAL ? Activation(t) : Desc());
    if (call.epilogue[i].op == PREHEAT_LIB_RESIDUAL) DeclineBroadcast(t);
  }
  std::vector<Argument> arguments;
  Epilogues epilogues = MakeEpilogues(call, 1, residuals, chosen.dst_desc(),
                                      g.channels_last ? ResidualAs::kBinary : ResidualAs::kSum, arguments);
  if (epilogues.bias) epilogues.bias_desc = Dense({call.result.sizes[1]}, TypeOf(call.result.dtype));
  const Forward::primitive_desc primitive = MakeForward(g, chosen.src_desc(), g.w_any, chosen.dst_desc(), &epilogues);
  DeclineReference(primitive);
  arguments.push_back(Operand(0, DNNL_ARG_SRC, g.x, primitive.src_desc(), call.frozen[0]));
  arguments.push_back(Operand(1, DNNL_ARG_WEIGHTS, g.w, primitive.weights_desc(), call.frozen[1]));
  arguments.push_back({Argument::Role::kResult, 0, DNNL_ARG_DST, g.y, primitive.dst_desc(), false});
  if (epilogues.bias) {
    arguments.push_back({Argument::Role::kEpilogue, 0, DNNL_ARG_BIAS, epilogues.bias_desc, epilogues.bias_desc, false});
  }
  return std::make_unique<Prepared>(Forward(primitive), primitive.scratchpad_desc(), std::move(arguments));
}

std::unique_ptr<Prepared> GradInput(const preheat_lib_call& call, const Geometry& g) {
  const Forward::primitive_desc hint = MakeForward(g, g.x_any, g.w_any, g.y_any, nullptr);
  const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, g.x_any, g.w_any, g.y_any,
                                                   g.stride, g.dilation, g.padding_low, g.padding_high);
  const dnnl::convolution_backward_data::primitive_desc primitive(desc, UserScratch(), Engine(), hint);
  DeclineReference(primitive);
  std::vector<Argument> arguments = {
      Operand(0, DNNL_ARG_DIFF_DST, g.y, primitive.diff_dst_desc(), call.frozen[0]),
      Operand(1, DNNL_ARG_WEIGHTS, g.w, primitive.weights_desc(), call.frozen[1]),
      {Argument::Role::kResult, 0, DNNL_ARG_DIFF_SRC, g.x, primitive.diff_src_desc(), false}};
  return std::make_unique<Prepared>(dnnl::convolution_backward_data(primitive), primitive.scratchpad_desc(),
                                    std::move(arguments));
}

std::unique_ptr<Prepared> GradWeight(const preheat_lib_call& call, const Geometry& g) {
  const Forward::primitive_desc hint = MakeForward(g, g.x_any, g.w_any, g.y_any, nullptr);
  const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, g.x_any, g.w_any, g.y_any,
                                                      g.stride, g.dilation, g.padding_low, g.padding_high);
  const dnnl::convolution_backward_weights::primitive_desc primitive(desc, UserScratch(), Engine(), hint);
  DeclineReference(primitive);
  std::vector<Argument> arguments = {
      Operand(0, DNNL_ARG_DIFF_DST, g.y, primitive.diff_dst_desc(), call.frozen[0]),
      Operand(1, DNNL_ARG_SRC, g.x, primitive.src_desc(), call.frozen[1]),
      {Argument::Role::kResult, 0, DNNL_ARG_DIFF_WEIGHTS, g.w, primitive.diff_weights_desc(), false}};
  return std::make_unique<Prepared>(dnnl::convolution_backward_weights(primitive), primitive.scratchpad_desc(),
                                    std::move(arguments));
}

}  // namespace

std::unique_ptr<Prepared> PrepareConv(const preheat_lib_call& call) {
  const preheat_lib_tensor &x = call.operands[0], &w = call.operands[1], &y = call.result;
  const auto make = [&](const Geometry& g) { return Convolution(call, g); };
  const Geometry given = MakeGeometry(call, x, w, y);
  if (!given.channels_last && FillsBlocks(call)) {
    if (std::unique_ptr<Prepared> made = Tried(InBlocks(given, x, y), make)) return made;
  }
  return ChannelsLastOrAny(given, x, y, make);
}

std::unique_ptr<Prepared> PrepareConvGradInput(const preheat_lib_call& call) {
  if (call.num_epilogue > 0) throw Declined{"epilogues of a gradient"};
  const preheat_lib_tensor &x = call.result, &w = call.operands[1], &y = call.operands[0];
  return ChannelsLastOrAny(MakeGeometry(call, x, w, y), x, y, [&](const Geometry& g) { return GradInput(call, g); });
}

std::unique_ptr<Prepared> PrepareConvGradWeight(const preheat_lib_call& call) {
  if (call.num_epilogue > 0) throw Declined{"epilogues of a gradient"};
  const preheat_lib_tensor &x = call.operands[1], &w = call.result, &y = call.operands[0];
  return ChannelsLastOrAny(MakeGeometry(call, x, w, y), x, y, [&](const Geometry& g) { return GradWeight(call, g); });
}

}  // namespace preheat::onednn
