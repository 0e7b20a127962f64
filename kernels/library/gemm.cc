#include "kernels/library/gemm.h"

#include <utility>

namespace preheat::library {
namespace {

using Offsets = std::vector<int64_t>;

// Offsets of every index of the given dimensions, the last one running fastest.
Offsets AllOffsets(const std::vector<std::pair<int64_t, int64_t>>& size_and_stride) {
  Offsets offsets = {0};
  for (const auto& [size, stride] : size_and_stride) {
    Offsets next;
    next.reserve(offsets.size() * static_cast<size_t>(size));
    for (int64_t base : offsets) {
      for (int64_t i = 0; i < size; ++i) next.push_back(base + i * stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

using Dims = std::vector<std::pair<int64_t, int64_t>>;

// Dimensions [begin, end) of a tensor.
Dims DimsOf(const TensorSpec& t, int begin, int end) {
  Dims dims;
  for (int i = begin; i < end; ++i) dims.push_back({t.sizes[i], t.strides[i]});
  return dims;
}

Dims Joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ResultRule MatrixRule(const TensorSpec& t) {
  const int rank = t.rank();
  return {AllOffsets(DimsOf(t, rank - 2, rank - 1)), AllOffsets(DimsOf(t, rank - 1, rank)),
          AllOffsets(DimsOf(t, 0, rank - 2))};
}

OperandRule AsOperand(ResultRule rule) {
  OperandRule operand;
  operand.row_offset = std::move(rule.m_offset);
  operand.k_offset = std::move(rule.n_offset);
  operand.batch_offset = std::move(rule.batch_offset);
  return operand;
}

GemmPlan PlanMatMul(const CallSpec& call) {
  GemmPlan plan;
  plan.left = AsOperand(MatrixRule(call.operands[0]));
  plan.right = AsOperand(MatrixRule(call.operands[1]));
  std::swap(plan.right.row_offset, plan.right.k_offset);  // b is [k, n]
  plan.result = MatrixRule(call.result);
  for (const EpilogueSpec& step : call.epilogue) {
    plan.residuals.push_back(step.op == PREHEAT_LIB_RESIDUAL ? MatrixRule(step.operand) : ResultRule());
  }
  return plan;
}

// --- Convolutions. x [n, c, s...], w [o, c / groups, window...], y [n, o, s...] ---

// Images of so few positions are one product together.
constexpr int64_t kFewPositions = 512;

// m runs over a group's channels of an activation; n over the positions of one image, or of all.
ResultRule ImageRule(const TensorSpec& t, int64_t groups, bool all_images) {
  const int64_t channels = t.sizes[1] / groups;
  if (all_images) {
    return {AllOffsets({{channels, t.strides[1]}}),
            AllOffsets(Joined({{t.sizes[0], t.strides[0]}}, DimsOf(t, 2, t.rank()))),
            AllOffsets({{groups, channels * t.strides[1]}})};
  }
  return {AllOffsets({{channels, t.strides[1]}}), AllOffsets(DimsOf(t, 2, t.rank())),
          AllOffsets({{t.sizes[0], t.strides[0]}, {groups, channels * t.strides[1]}})};
}

// Positions in dimension d for every index of the spatial dimensions `sizes`: index times `factor` plus `shift`.
Offsets Positions(const Offsets& sizes, int d, int64_t factor, int64_t shift) {
  Dims dims;
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) dims.push_back({sizes[i], i == d ? factor : 0});
  Offsets positions = AllOffsets(dims);
  for (int64_t& p : positions) p += shift;
  return positions;
}

Offsets Spatial(const TensorSpec& t) { return {t.sizes.begin() + 2, t.sizes.end()}; }

// Repeats a table for each of `times` outer indices: entry (outer, inner) is table[inner].
Offsets Repeated(const Offsets& table, int64_t times) {
  Offsets all;
  all.reserve(table.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) all.insert(all.end(), table.begin(), table.end());
  return all;
}

void SetWindow(OperandRule& rule, int d, Offsets rows, Offsets ks, int64_t size, int64_t stride, int64_t step) {
  rule.row_position[d] = std::move(rows);
  rule.k_position[d] = std::move(ks);
  rule.size[d] = size;
  rule.stride[d] = stride;
  rule.step[d] = step;
}

// The table that says how far one channel of `t` is from the next, for `channels` channels with `inner` entries each.
Offsets ChannelOffsets(const TensorSpec& t, int64_t channels, int64_t inner) {
  return AllOffsets({{channels, t.strides[1]}, {inner, 0}});
}

int64_t Count(const Offsets& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

// y[o, p] = sum over (c, q): w[o, c, q] * x[c, p * stride - padding + q * dilation]
GemmPlan PlanForward(const CallSpec& call) {
  const TensorSpec &x = call.operands[0], &w = call.operands[1], &y = call.result;
  const int64_t channels = w.sizes[1], outputs = w.sizes[0] / call.groups, images = x.sizes[0];
  const Offsets window = Spatial(w), positions = Spatial(y);
  // Of the images, `together` are one product and `apart` are products of their own.
  const int64_t together = images * Count(positions) <= kFewPositions ? images : 1, apart = images / together;
  GemmPlan plan;
  plan.left_operand = 1;
  plan.left.row_offset = AllOffsets({{outputs, w.strides[0]}});
  plan.left.k_offset = AllOffsets(DimsOf(w, 1, w.rank()));
  plan.left.batch_offset = AllOffsets({{apart, 0}, {call.groups, outputs * w.strides[0]}});
  plan.right.row_offset = AllOffsets({{together, x.strides[0]}, {Count(positions), 0}});
  plan.right.k_offset = ChannelOffsets(x, channels, Count(window));
  plan.right.batch_offset = AllOffsets({{apart, x.strides[0]}, {call.groups, channels * x.strides[1]}});
  plan.right.windows = call.spatial();
  plan.right.taps = Count(window);
  for (int d = 0; d < call.spatial(); ++d) {
    SetWindow(plan.right, d, Repeated(Positions(positions, d, call.stride[d], -call.padding[d]), together),
              Repeated(Positions(window, d, call.dilation[d], 0), channels), x.sizes[d + 2], x.strides[d + 2], 1);
  }
  plan.result = ImageRule(y, call.groups, apart == 1);
  return plan;
}

// x[c, p] = sum over (o, q): w[o, c, q] * y[o, (p + padding - q * dilation) / stride], where that is whole
GemmPlan PlanGradInput(const CallSpec& call) {
  const TensorSpec &y = call.operands[0], &w = call.operands[1], &x = call.result;
  const int64_t channels = w.sizes[1], outputs = w.sizes[0] / call.groups, images = x.sizes[0];
  const Offsets window = Spatial(w), positions = Spatial(x);
  GemmPlan plan;
  plan.left_operand = 1;
  plan.left.row_offset = AllOffsets({{channels, w.strides[1]}});
  plan.left.k_offset = AllOffsets(Joined({{outputs, w.strides[0]}}, DimsOf(w, 2, w.rank())));
  plan.left.batch_offset = AllOffsets({{images, 0}, {call.groups, outputs * w.strides[0]}});
  plan.right.row_offset = Offsets(static_cast<size_t>(Count(positions)), 0);
  plan.right.k_offset = ChannelOffsets(y, outputs, Count(window));
  plan.right.batch_offset = AllOffsets({{images, y.strides[0]}, {call.groups, outputs * y.strides[1]}});
  plan.right.windows = call.spatial();
  plan.right.taps = Count(window);
  for (int d = 0; d < call.spatial(); ++d) {
    SetWindow(plan.right, d, Positions(positions, d, 1, call.padding[d]),
              Repeated(Positions(window, d, -call.dilation[d], 0), outputs), y.sizes[d + 2], y.strides[d + 2],
              call.stride[d]);
  }
  plan.result = ImageRule(x, call.groups, false);
  return plan;
}

// w[o, (c, q)] = sum over (image, p): y[image, o, p] * x[image, c, p * stride - padding + q * dilation]
GemmPlan PlanGradWeight(const CallSpec& call) {
  const TensorSpec &y = call.operands[0], &x = call.operands[1], &w = call.result;
  const int64_t channels = w.sizes[1], outputs = w.sizes[0] / call.groups, images = x.sizes[0];
  const Offsets window = Spatial(w), positions = Spatial(y);
  GemmPlan plan;
  plan.left_operand = 0;
  plan.left.row_offset = AllOffsets({{outputs, y.strides[1]}});
  plan.left.k_offset = AllOffsets(Joined({{images, y.strides[0]}}, DimsOf(y, 2, y.rank())));
  plan.left.batch_offset = AllOffsets({{call.groups, outputs * y.strides[1]}});
  plan.right.row_offset = ChannelOffsets(x, channels, Count(window));
  plan.right.k_offset = AllOffsets({{images, x.strides[0]}, {Count(positions), 0}});
  plan.right.batch_offset = AllOffsets({{call.groups, channels * x.strides[1]}});
  plan.right.windows = call.spatial();
  for (int d = 0; d < call.spatial(); ++d) {
    SetWindow(plan.right, d, Repeated(Positions(window, d, call.dilation[d], 0), channels),
              Repeated(Positions(positions, d, call.stride[d], -call.padding[d]), images), x.sizes[d + 2],
              x.strides[d + 2], 1);
  }
  plan.result = {AllOffsets({{outputs, w.strides[0]}}), AllOffsets(DimsOf(w, 1, w.rank())),
                 AllOffsets({{call.groups, outputs * w.strides[0]}})};
  return plan;
}

// Residuals lie like the result; a bias of a convolution follows the channels.
void PlanConvEpilogue(const CallSpec& call, GemmPlan& plan) {
  plan.bias_follows_m = true;
  const int64_t channels = static_cast<int64_t>(plan.result.m_offset.size());
  const int64_t images = static_cast<int64_t>(plan.result.batch_offset.size()) / call.groups;  // that are apart
  plan.bias_base = AllOffsets({{images, 0}, {call.groups, channels}});
  for (const EpilogueSpec& step : call.epilogue) {
    ResultRule rule;
    if (step.op == PREHEAT_LIB_RESIDUAL && call.op == PREHEAT_LIB_CONV_GRAD_WEIGHT) {
      const TensorSpec& w = step.operand;
      rule = {AllOffsets({{channels, w.strides[0]}}), AllOffsets(DimsOf(w, 1, w.rank())),
              AllOffsets({{call.groups, channels * w.strides[0]}})};
    } else if (step.op == PREHEAT_LIB_RESIDUAL) {
      rule = ImageRule(step.operand, call.groups, images == 1);
    }
    plan.residuals.push_back(std::move(rule));
  }
}

}  // namespace

GemmPlan PlanGemm(const CallSpec& call) {
  GemmPlan plan;
  switch (call.op) {
    case PREHEAT_LIB_MATMUL: plan = PlanMatMul(call); break;
    case PREHEAT_LIB_CONV: plan = PlanForward(call); break;
    case PREHEAT_LIB_CONV_GRAD_INPUT: plan = PlanGradInput(call); break;
    default: plan = PlanGradWeight(call);
  }
  if (call.op != PREHEAT_LIB_MATMUL) PlanConvEpilogue(call, plan);
  plan.m = static_cast<int64_t>(plan.result.m_offset.size());
  plan.n = static_cast<int64_t>(plan.result.n_offset.size());
  plan.k = static_cast<int64_t>(plan.left.k_offset.size());
  plan.batch = static_cast<int64_t>(plan.result.batch_offset.size());
  return plan;
}

}  // namespace preheat::library
