#include "compiler/passes/lay_out_convolutions.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/passes/channel_order.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

enum class Lies { kChannelsFirst, kChannelsLast, kBoth, kOtherwise };

bool IsConvolution(const Node& node) {
  return node.op() == Op::kConv || node.op() == Op::kConvGradInput || node.op() == Op::kConvGradWeight ||
         (node.op() == Op::kFused && node.String("base") == "conv");
}

std::vector<Expr> ChannelsLastStrides(const std::vector<Expr>& shape) {
  std::vector<int64_t> order = ToChannelsLast(static_cast<int>(shape.size()));
  std::vector<Expr> twin, strides(shape.size());
  for (int64_t d : order) twin.push_back(shape[d]);
  std::vector<Expr> dense = ir::RowMajorStrides(twin);
  for (size_t i = 0; i < order.size(); ++i) strides[order[i]] = dense[i];
  return strides;
}

// Strides of dimensions of one element say nothing.
bool SameStrides(const std::vector<Expr>& shape, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != Expr(1) && a[i] != b[i]) return false;
  }
  return true;
}

Lies ByStrides(const std::vector<Expr>& shape, const std::vector<Expr>& strides) {
  const bool first = SameStrides(shape, strides, ir::RowMajorStrides(shape));
  const bool last = SameStrides(shape, strides, ChannelsLastStrides(shape));
  if (first && last) return Lies::kBoth;
  return first ? Lies::kChannelsFirst : last ? Lies::kChannelsLast : Lies::kOtherwise;
}

class LayOut {
 public:
  explicit LayOut(const ir::Graph& graph) : graph_(graph), users_(graph), r_(graph) {}

  absl::StatusOr<ir::Graph> Run() {
    for (const Node& node : graph_.nodes()) {
      if (IsConvolution(node) && node.results()[0].rank() >= 3) {
        RETURN_IF_ERROR(Visit(node));
      } else {
        RETURN_IF_ERROR(r_.Copy(node));
      }
    }
    return r_.Finish();
  }

 private:
  absl::Status Visit(const Node& node) {
    Builder& b = r_.builder();
    b.SetDebugId(node.debug_id());
    const bool last = WantsChannelsLast(node);
    std::vector<Value> operands;
    for (size_t i = 0; i < node.operands().size(); ++i) {
      const Value operand = node.operand(static_cast<int>(i));
      operands.push_back(operand.type().rank() < 3 ? r_.Map(operand) : Laid(operand, last));
    }
    const ir::TensorType& type = node.results()[0];
    const bool declared = ir::Info(node.op()).rule == ir::TypeRule::kDeclared;
    Value result = b.Emit(node.op(), operands, node.attrs(),
                          declared ? std::vector<ir::TensorType>{type} : std::vector<ir::TensorType>{});
    RETURN_IF_ERROR(b.status());
    if (last && Wanted(node) == Lies::kChannelsFirst) {
      result = Copied(result, false);  // the caller's layout
    } else if (last && !users_.IsOutput(node.result())) {
      // Two views of nothing: schedule/layout.h stores what is read with channels last so.
      result = b.Permute(b.Permute(result, ToChannelsLast(type.rank())), FromChannelsLast(type.rank()));
    }
    lies_[node.result()] = last && Wanted(node) != Lies::kChannelsFirst ? Lies::kChannelsLast : Lies::kChannelsFirst;
    r_.Replace(node.result(), result);
    return b.status();
  }

  // How the caller wants an output to lie.
  Lies Wanted(const Node& node) const {
    for (const ir::GraphOutput& output : graph_.outputs()) {
      if (output.value == node.result() && output.mutates < 0) return ByStrides(output.value.shape(), output.strides);
    }
    return Lies::kBoth;
  }

  bool WantsChannelsLast(const Node& node) const {
    if (node.op() == Op::kFused) return true;
    const Lies wanted = Wanted(node);
    if (wanted == Lies::kChannelsLast) return true;
    const auto last = [&](int i) { return LiesHow(node.operand(i)) == Lies::kChannelsLast; };
    if (node.op() == Op::kConv) return wanted == Lies::kBoth || last(0);
    return last(0) && (node.op() == Op::kConvGradInput || last(1));
  }

  Lies LiesHow(Value v) const {
    const auto convolution = lies_.find(v);
    if (convolution != lies_.end()) return convolution->second;
    const Node& node = *v.node;
    if (node.op() == Op::kInput) return ByStrides(v.shape(), graph_.inputs()[node.Int("index")].strides);
    for (const ir::GraphOutput& output : graph_.outputs()) {
      if (output.value == v && output.mutates < 0 && !ir::IsView(node.op()))
        return ByStrides(v.shape(), output.strides);
    }
    if (node.op() == Op::kPermute && node.Ints("dims") == FromChannelsLast(v.type().rank()) &&
        IsDense(node.operand(0))) {
      return Both(v.shape()) ? Lies::kBoth : Lies::kChannelsLast;
    }
    if (!IsDense(v)) return Lies::kOtherwise;
    return Both(v.shape()) ? Lies::kBoth : Lies::kChannelsFirst;
  }

  static bool Both(const std::vector<Expr>& shape) {
    return ByStrides(shape, ir::RowMajorStrides(shape)) == Lies::kBoth;
  }

  // Row-major in memory, seen through reshapes.
  bool IsDense(Value v) const {
    const Value seen = v;
    while (v.node->op() == Op::kReshape) v = v.node->operand(0);
    if (v.node->op() == Op::kInput) {
      return SameStrides(v.shape(), graph_.inputs()[v.node->Int("index")].strides, ir::RowMajorStrides(v.shape()));
    }
    if (users_.IsOutput(v) || ir::IsView(v.node->op()) || lies_.count(v) != 0) return false;
    // A product that is read permuted may be stored so; one that is read reshaped is not: schedule/layout.h.
    const bool product = v.node->op() == Op::kMatMul || v.node->op() == Op::kFused;
    return !product || seen != v;
  }

  // The operand as it is to lie.
  Value Laid(Value old, bool last) {
    const Lies lies = LiesHow(old);
    const bool fits = lies == Lies::kBoth || lies == (last ? Lies::kChannelsLast : Lies::kChannelsFirst);
    if (fits) return r_.Map(old);
    auto [known, fresh] = laid_.try_emplace({old, last});
    if (fresh) known->second = Copied(r_.Map(old), last);
    return known->second;
  }

  Value Copied(Value v, bool last) {
    Builder& b = r_.builder();
    const int rank = v.type().rank();
    if (last) v = b.Permute(v, ToChannelsLast(rank));
    const std::vector<Expr> none(static_cast<size_t>(rank), Expr(0));
    ir::AttrValue zero = ir::IsFloat(v.dtype()) ? ir::AttrValue(0.0) : ir::AttrValue(int64_t{0});
    v = b.Emit(Op::kPad, {v}, {{"low", none}, {"high", none}, {"value", zero}});
    return last ? b.Permute(v, FromChannelsLast(rank)) : v;
  }

  const ir::Graph& graph_;
  const Users users_;
  rewrite::Rebuild r_;
  std::map<Value, Lies> lies_;                    // of convolutions' results
  std::map<std::pair<Value, bool>, Value> laid_;  // copies made, of old values
};

}  // namespace

absl::StatusOr<ir::Graph> LayOutConvolutions(const ir::Graph& graph) {
  const auto& nodes = graph.nodes();
  if (std::any_of(nodes.begin(), nodes.end(), IsConvolution)) return LayOut(graph).Run();
  rewrite::Rebuild r(graph);
  for (const Node& node : nodes) RETURN_IF_ERROR(r.Copy(node));
  return r.Finish();
}

}  // namespace preheat::passes
