#include "compiler/passes/sum_channel_filters.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/channel_order.h"
#include "compiler/passes/stored.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

constexpr int64_t kMostTaps = 128;

bool IsConvolution(const Node& node) {
  return node.op() == Op::kConv || (node.op() == Op::kFused && node.String("base") == "conv");
}

bool HasChannelsLast(Value v) {
  return IsConvolution(*v.node) ||
         (v.node->op() == Op::kPermute && v.node->Ints("dims") == FromChannelsLast(v.type().rank()));
}

bool HasFilterAChannel(const Node& node) {
  if (!IsConvolution(node) || node.Int("transposed") != 0 || node.Int("groups") < 2) return false;
  const DType dtype = node.results()[0].dtype;
  if (!ir::IsFloat(dtype) || dtype == DType::kF64) return false;
  const std::vector<Expr>& filter = node.operand(1).shape();
  if (filter[1] != Expr(1) || filter[0] != Expr(node.Int("groups"))) return false;
  int64_t taps = 1;
  for (size_t i = 2; i < filter.size(); ++i) {
    const std::optional<int64_t> size = filter[i].constant();
    if (!size) return false;
    taps *= *size;
  }
  return taps <= kMostTaps;
}

class Sum {
 public:
  Sum(const Node& node, rewrite::Rebuild& r)
      : node_(node), r_(r), b_(r.builder()), rank_(node.results()[0].rank()), spatial_(rank_ - 2) {}

  // The convolution's result, seen with its channels in their place.
  Value Emit() {
    Value windows = Windows();
    Value filter = b_.Cast(Filter(), DType::kF32);
    std::vector<Expr> shape(static_cast<size_t>(1 + spatial_), Expr(1));
    shape.insert(shape.end(), filter.shape().begin(), filter.shape().end());
    Value products = b_.Mul(windows, b_.BroadcastTo(b_.Reshape(filter, shape), windows.shape()));
    std::vector<int64_t> dims;
    for (int i = 0; i < spatial_; ++i) dims.push_back(1 + spatial_ + i);
    Value sum = b_.Reduce(Op::kReduceSum, products, dims, false);
    if (node_.op() == Op::kFused) sum = WithEpilogue(sum);
    // Stored as it is rounded: who comes next reads half as much.
    return b_.Permute(Stored(b_.Cast(sum, node_.results()[0].dtype)), FromChannelsLast(rank_));
  }

 private:
  Value ChannelsLast(Value old) {
    if (old.node->op() == Op::kPermute && old.node->Ints("dims") == FromChannelsLast(rank_)) {
      return r_.Map(old.node->operand(0));
    }
    return b_.Permute(r_.Map(old), ToChannelsLast(rank_));
  }

  // [n, out..., window..., c], in f32.
  Value Windows() {
    Value x = ChannelsLast(node_.operand(0));
    std::vector<Expr> low(static_cast<size_t>(rank_), Expr(0));
    for (int i = 0; i < spatial_; ++i) low[static_cast<size_t>(i + 1)] = Expr(node_.Ints("padding")[i]);
    x = b_.Emit(Op::kPad, {x}, {{"low", low}, {"high", low}, {"value", ir::AttrValue(0.0)}});
    if (std::any_of(low.begin(), low.end(), [](const Expr& e) { return e != Expr(0); })) x = Stored(x);
    for (int i = 0; i < spatial_; ++i) {
      const int64_t size = *node_.operand(1).shape()[static_cast<size_t>(i + 2)].constant();
      x = b_.Emit(Op::kWindow, {x},
                  {{"dim", int64_t{i + 1}},
                   {"size", size},
                   {"step", node_.Ints("stride")[i]},
                   {"dilation", node_.Ints("dilation")[i]}});
    }
    std::vector<int64_t> order;  // the channels behind the windows
    for (int64_t d = 0; d < 2 * spatial_ + 2; ++d) {
      if (d != 1 + spatial_) order.push_back(d);
    }
    order.push_back(1 + spatial_);
    return b_.Cast(b_.Permute(x, order), DType::kF32);
  }

  // [window..., c], stored so.
  Value Filter() {
    Value filter = r_.Map(node_.operand(1));
    std::vector<Expr> shape = filter.shape();
    shape.erase(shape.begin() + 1);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < spatial_; ++i) order.push_back(i + 1);
    order.push_back(0);
    return Stored(b_.Permute(b_.Reshape(filter, shape), order));
  }

  Value Stored(Value v) { return passes::Stored(b_, v); }

  Value WithEpilogue(Value sum) {
    int next = 2;
    for (const std::string& step : node_.Strings("epilogue")) {
      if (step == "bias") {
        sum = b_.Add(sum, b_.BroadcastTo(b_.Cast(r_.Map(node_.operand(next++)), DType::kF32), sum.shape()));
      } else if (step == "residual") {
        sum = b_.Add(sum, b_.Cast(ChannelsLast(node_.operand(next++)), DType::kF32));
      } else {  // ReLU: FormGpuEpilogues has no other behind a convolution
        sum = b_.Binary(Op::kMax, sum, ir::Scalar(0.0));
      }
    }
    return sum;
  }

  const Node& node_;
  rewrite::Rebuild& r_;
  Builder& b_;
  const int rank_, spatial_;
};

}  // namespace

absl::StatusOr<ir::Graph> SumChannelFilters(const ir::Graph& graph) {
  Users users(graph);
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const bool summed = HasFilterAChannel(node) && HasChannelsLast(node.operand(0)) && !users.IsOutput(node.result());
    return summed ? Sum(node, r).Emit() : Value();
  });
}

}  // namespace preheat::passes
