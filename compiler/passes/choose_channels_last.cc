#include "compiler/passes/choose_channels_last.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/channel_order.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

using ir::Attrs;
using ir::Builder;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

int64_t TwinDim(int64_t dim, int rank) { return dim == 0 ? 0 : dim == 1 ? rank - 1 : dim - 1; }

template <typename T>
std::vector<T> Reordered(const std::vector<T>& of, const std::vector<int64_t>& order) {
  std::vector<T> result;
  for (int64_t d : order) result.push_back(of[d]);
  return result;
}

bool IsConvolution(const Node& node) {
  bool conv = node.op() == Op::kConv || (node.op() == Op::kFused && node.String("base") == "conv");
  return conv && ir::IsFloat(node.results()[0].dtype) && node.results()[0].dtype != ir::DType::kF64 &&
         node.results()[0].rank() >= 3;
}

class Twins {
 public:
  Twins(const ir::Graph& graph, bool gpu) : graph_(graph), gpu_(gpu), users_(graph), r_(graph) {}

  absl::StatusOr<ir::Graph> Run() {
    for (const Node& node : graph_.nodes()) {
      RETURN_IF_ERROR(Visit(node));
      RETURN_IF_ERROR(r_.builder().status());
    }
    return r_.Finish();
  }

 private:
  Builder& b() { return r_.builder(); }

  absl::Status Visit(const Node& node) {
    b().SetDebugId(node.debug_id());
    if (gpu_ && LiesChannelsLast(node)) {
      RETURN_IF_ERROR(r_.Copy(node));
      twins_[node.result()] = b().Permute(r_.Map(node.result()), ToChannelsLast(node.results()[0].rank()));
      return absl::OkStatus();
    }
    const bool follows = gpu_ && node.op() == Op::kConvGradInput && twins_.count(node.operand(0)) != 0;
    if ((IsConvolution(node) || follows) && !users_.IsOutput(node.result())) {
      RETURN_IF_ERROR(r_.Copy(node));
      twins_[node.result()] = b().Permute(r_.Map(node.result()), ToChannelsLast(node.results()[0].rank()));
      return absl::OkStatus();
    }
    if (IsTwin(node)) {  // of rank 3 it looks like a value that has one, too
      r_.Replace(node.result(), twins_.at(node.operand(0)));
      return absl::OkStatus();
    }
    if (node.op() == Op::kPermute && node.results()[0].rank() >= 3 &&
        node.Ints("dims") == FromChannelsLast(node.results()[0].rank())) {
      RETURN_IF_ERROR(r_.Copy(node));
      twins_[node.result()] = r_.Map(node.operand(0));
      return absl::OkStatus();
    }
    if (node.results().size() == 1 && ReadsTwins(node)) {
      Value twin = TwinOf(node);
      if (twin) return SetTwin(node.result(), twin);
      if (ir::IsReduction(node.op()) && ReduceTwin(node)) return absl::OkStatus();
    }
    return r_.Copy(node);
  }

  // An image that the caller passes with its channels last.
  bool LiesChannelsLast(const Node& node) const {
    if (node.op() != Op::kInput || node.results()[0].rank() < 3) return false;
    const std::vector<Expr>& shape = node.results()[0].shape;
    const std::vector<int64_t> order = ToChannelsLast(node.results()[0].rank());
    const std::vector<Expr>& strides = graph_.inputs()[static_cast<size_t>(node.Int("index"))].strides;
    return strides != ir::RowMajorStrides(shape) &&
           Reordered(strides, order) == ir::RowMajorStrides(Reordered(shape, order));
  }

  bool IsTwin(const Node& node) const {
    return node.op() == Op::kPermute && twins_.count(node.operand(0)) != 0 &&
           node.Ints("dims") == ToChannelsLast(node.results()[0].rank());
  }

  bool ReadsTwins(const Node& node) const {
    return std::any_of(node.operands().begin(), node.operands().end(), [&](Value v) { return twins_.count(v) != 0; });
  }

  absl::Status SetTwin(Value value, Value twin) {
    twins_[value] = twin;
    r_.Replace(value, b().Permute(twin, FromChannelsLast(value.type().rank())));
    return absl::OkStatus();
  }

  // The operand's twin; a view of it where it has none of its own.
  Value Operand(Value old) {
    auto twin = twins_.find(old);
    return twin != twins_.end() ? twin->second : b().Permute(r_.Map(old), ToChannelsLast(old.type().rank()));
  }

  // The operator on the twins of its operands, where that is a twin of its result; null otherwise.
  Value TwinOf(const Node& node) {
    int rank = node.results()[0].rank();
    if (rank < 3) return {};
    if (ir::IsPointwise(node.op())) return OnOperands(node, node.attrs());
    switch (node.op()) {
      case Op::kSlice: return OnOperands(node, WithOrder(node, {"starts", "sizes"}, {"steps"}));
      case Op::kPad: return OnOperands(node, WithOrder(node, {"low", "high"}, {}));
      case Op::kBroadcast: return OnOperands(node, WithOrder(node, {"shape"}, {}));
      case Op::kConcat: return OnOperands(node, WithDim(node));
      case Op::kWindow: return node.Int("dim") == 1 ? Value{} : Window(node);
      case Op::kReshape: return KeepsChannels(node) ? OnOperands(node, WithOrder(node, {"shape"}, {})) : Value{};
      default: return {};
    }
  }

  Value OnOperands(const Node& node, Attrs attrs) {
    std::vector<Value> operands;
    for (Value operand : node.operands()) operands.push_back(Operand(operand));
    return b().Emit(node.op(), operands, std::move(attrs));
  }

  static Attrs WithOrder(const Node& node, const std::vector<const char*>& exprs,
                         const std::vector<const char*>& ints) {
    Attrs attrs = node.attrs();
    std::vector<int64_t> order = ToChannelsLast(node.results()[0].rank());
    for (const char* name : exprs) attrs[name] = Reordered(node.Exprs(name), order);
    for (const char* name : ints) attrs[name] = Reordered(node.Ints(name), order);
    return attrs;
  }

  static Attrs WithDim(const Node& node) {
    Attrs attrs = node.attrs();
    attrs["dim"] = TwinDim(node.Int("dim"), node.results()[0].rank());
    return attrs;
  }

  // Only pixels are laid side by side or apart: [n, c, h, w] <-> [n, c, h * w], as tokens are made of images.
  static bool KeepsChannels(const Node& node) {
    const std::vector<Expr>&from = node.operand(0).shape(), &to = node.results()[0].shape;
    return from.size() >= 3 && from[0] == to[0] && from[1] == to[1];
  }

  // A window appends its dimension: the channels go behind it again.
  Value Window(const Node& node) {
    int rank = node.operand(0).type().rank();
    Attrs attrs = node.attrs();
    attrs["dim"] = TwinDim(node.Int("dim"), rank);
    Value cut = b().Emit(Op::kWindow, {Operand(node.operand(0))}, std::move(attrs));
    if (!cut) return {};
    std::vector<int64_t> order;
    for (int64_t d = 0; d < rank - 1; ++d) order.push_back(d);
    order.push_back(rank);
    order.push_back(rank - 1);
    return b().Permute(cut, std::move(order));
  }

  // A reduction of a twin. What is left is a twin, or in the value's own order; otherwise nothing is done.
  bool ReduceTwin(const Node& node) {
    int rank = node.operand(0).type().rank();
    bool arg = !node.Has("dims");
    std::vector<int64_t> dims = arg ? std::vector<int64_t>{node.Int("dim")} : node.Ints("dims");
    auto reduced = [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
    bool inner_kept = false;
    for (int64_t d = 2; d < rank; ++d) inner_kept |= !reduced(d);
    bool twin = !reduced(0) && !reduced(1) && inner_kept;
    if (!twin && !reduced(1) && inner_kept) return false;
    for (int64_t& d : dims) d = TwinDim(d, rank);
    std::sort(dims.begin(), dims.end());
    Attrs attrs = node.attrs();
    if (arg) {
      attrs["dim"] = dims[0];
    } else {
      attrs["dims"] = dims;
    }
    Value result = b().Emit(node.op(), {Operand(node.operand(0))}, std::move(attrs));
    if (!result) return false;
    if (twin) return SetTwin(node.result(), result).ok();
    r_.Replace(node.result(), result);
    return true;
  }

  const ir::Graph& graph_;
  const bool gpu_;
  const Users users_;
  rewrite::Rebuild r_;
  std::map<Value, Value> twins_;  // old value -> its twin in the new graph
};

bool IsGradient(const Node& node) { return node.op() == Op::kConvGradInput || node.op() == Op::kConvGradWeight; }

absl::StatusOr<ir::Graph> Choose(const ir::Graph& graph, bool gpu) {
  const bool any = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                               [&](const Node& node) { return IsConvolution(node) || (gpu && IsGradient(node)); });
  if (any) return Twins(graph, gpu).Run();
  rewrite::Rebuild r(graph);
  for (const Node& node : graph.nodes()) RETURN_IF_ERROR(r.Copy(node));
  return r.Finish();
}

}  // namespace

absl::StatusOr<ir::Graph> ChooseChannelsLast(const ir::Graph& graph) { return Choose(graph, /*gpu=*/false); }
absl::StatusOr<ir::Graph> ChooseGpuChannelsLast(const ir::Graph& graph) { return Choose(graph, /*gpu=*/true); }

}  // namespace preheat::passes
