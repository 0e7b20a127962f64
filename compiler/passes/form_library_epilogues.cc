#include "compiler/passes/form_library_epilogues.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/activations.h"
#include "compiler/passes/channel_order.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

constexpr size_t kMaxSteps = 4;

// A library call and what it takes along. `end` is the value that it then computes, up to a reshape.
struct Chain {
  const Node* base = nullptr;
  Value end;
  std::vector<std::string> steps;
  std::vector<Value> extras;  // of the old graph, each with the elements of a bias or of the result
  std::set<const Node*> nodes;
};

bool IsOne(const Expr& size) { return size == Expr(1); }
bool Is16Bit(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

bool IsConvolution(const Node& node) {
  return node.op() == Op::kConv || (node.op() == Op::kFused && node.String("base") == "conv");
}

// Strides that the boundary demands of a value; null where it is free.
const std::vector<Expr>* StridesAtBoundary(const ir::Graph& graph, Value v) {
  if (v.node->op() == Op::kInput) return &graph.inputs()[v.node->Int("index")].strides;
  for (const ir::GraphOutput& output : graph.outputs()) {
    if (output.value == v && output.mutates < 0) return &output.strides;
  }
  return nullptr;
}

// Will the value lie row-major in memory, in its own or seen through reshapes? Convolutions that are read with channels
// last lie so: schedule/layout.h.
bool IsDense(const ir::Graph& graph, Value v) {
  while (v.node->op() == Op::kReshape) v = v.node->operand(0);
  if (const std::vector<Expr>* strides = StridesAtBoundary(graph, v)) return *strides == ir::RowMajorStrides(v.shape());
  if (v.node->op() == Op::kPermute && v.node->Ints("dims") == ToChannelsLast(v.type().rank())) {
    return IsConvolution(*v.node->operand(0).node) && StridesAtBoundary(graph, v.node->operand(0)) == nullptr;
  }
  return !ir::IsView(v.node->op()) && !IsConvolution(*v.node);
}

// Walks from the base's result to the values behind it.
class Walk {
 public:
  Walk(const ir::Graph& graph, const Node& base, const Users& users, const std::set<const Node*>& claimed, bool gpu)
      : graph_(graph),
        users_(users),
        claimed_(claimed),
        gpu_(gpu),
        dtype_(base.results()[0].dtype),
        cur_(base.result()) {
    now_.base = &base;
  }

  // The longest chain that ends in the base's own dtype; nothing when there is no step.
  std::optional<Chain> Run() {
    while (now_.steps.size() < kMaxSteps && !users_.IsOutput(cur_) && Step()) {
      if (cur_.dtype() == dtype_ && !now_.steps.empty() && MayEnd()) best_ = now_, best_->end = cur_;
    }
    return best_;
  }

 private:
  bool Step() {
    const Node* user = users_.Only(cur_);
    if (user != nullptr && claimed_.count(user) == 0) {
      if (user->op() == Op::kReshape && KeepsColumns(*user)) return Pass(*user);
      if (user->op() == Op::kCast && ChangesWidth(*user)) return Pass(*user);
      if (user->op() == Op::kAdd && TakeSummand(*user)) return Pass(*user);
    }
    std::optional<Activation> activation = FindActivation(cur_, users_);
    if (!activation || now_.steps.size() >= kMaxSteps || !Takes(activation->name)) return false;
    for (const Node* node : activation->nodes) {
      if (claimed_.count(node) != 0) return false;
    }
    now_.steps.push_back(activation->name);
    now_.nodes.insert(activation->nodes.begin(), activation->nodes.end());
    cur_ = activation->result;
    return true;
  }

  bool Pass(const Node& user) {
    now_.nodes.insert(&user);
    cur_ = user.result();
    return true;
  }

  bool Has(const std::string& step) const {
    return std::find(now_.steps.begin(), now_.steps.end(), step) != now_.steps.end();
  }

  // Does the target's library take this step behind those so far?
  bool Takes(const std::string& step) const {
    if (!gpu_) return true;
    if (Has("relu") || Has("gelu_tanh")) return false;
    if (step == "bias" || step == "residual") return !Has(step);
    // In float32 cuBLASLt's GELU is 1.8e-6 off, twenty times a product's own error.
    return step == "relu" || (step == "gelu_tanh" && !IsConv() && Is16Bit(dtype_));
  }

  bool MayEnd() const { return !gpu_ || !IsConv() || !users_.IsOutput(cur_); }

  bool IsConv() const { return now_.base->op() == Op::kConv; }
  int ChannelDim(int rank) const { return IsConv() ? 1 : rank - 1; }

  bool KeepsColumns(const Node& reshape) const {
    const std::vector<Expr>& shape = reshape.results()[0].shape;
    return !IsConv() && !shape.empty() && shape.back() == now_.base->results()[0].shape.back();
  }

  bool ChangesWidth(const Node& cast) const {
    DType to = cast.results()[0].dtype;
    return Is16Bit(dtype_) && (cur_.dtype() == dtype_ ? to == DType::kF32 : to == dtype_);
  }

  // The other operand of an addition becomes a bias or a residual.
  bool TakeSummand(const Node& add) {
    if (add.operand(0) == add.operand(1)) return false;
    Value other = add.operand(add.operand(0) == cur_ ? 1 : 0);
    if (now_.steps.empty()) {
      if (std::optional<Value> bias = AsBias(other)) return Take("bias", *bias);
    }
    if (!Takes("residual")) return false;
    std::optional<Value> residual = AsResidual(other);
    return residual && Take("residual", *residual);
  }

  bool Take(const char* step, Value extra) {
    now_.steps.push_back(step);
    now_.extras.push_back(extra);
    return true;
  }

  // A vector along the channels, seen through views, in the base's dtype.
  std::optional<Value> AsBias(Value other) const {
    if (other.node->op() == Op::kBroadcast) other = other.node->operand(0);
    int channel = ChannelDim(other.type().rank());
    for (int i = 0; i < other.type().rank(); ++i) {
      if (i == channel ? other.shape()[i] != cur_.shape()[i] : !IsOne(other.shape()[i])) return std::nullopt;
    }
    while (other.node->op() == Op::kReshape) other = other.node->operand(0);
    return Dense(Narrow(other));
  }

  // On a GPU: nothing where the value may lie otherwise than row-major.
  std::optional<Value> Dense(std::optional<Value> value) const {
    return !gpu_ || !value || IsDense(graph_, *value) ? value : std::nullopt;
  }

  std::optional<Value> AsResidual(Value other) const {
    Op op = other.node->op();
    if (op == Op::kFill || op == Op::kBroadcast || op == Op::kIota) return std::nullopt;
    // An expression of its own is better computed in the kernel that would do this addition.
    if (ir::IsPointwise(op) && op != Op::kCast && users_.Only(other) != nullptr && !EndsLibraryCall(other)) {
      return std::nullopt;
    }
    return IsConv() ? Narrow(other) : Dense(Narrow(other));
  }

  // A sum with a library call's result, which will be a library call's result itself.
  static bool EndsLibraryCall(Value v) {
    for (int i = 0; i < 4; ++i) {
      if (ir::IsLibrary(v.node->op())) return true;
      if (v.node->op() != Op::kAdd && v.node->op() != Op::kReshape && v.node->op() != Op::kCast) return false;
      v = v.node->operand(0);
    }
    return false;
  }

  // The value in the base's dtype: what a widening cast was made of.
  std::optional<Value> Narrow(Value v) const {
    if (v.dtype() != dtype_ && v.node->op() == Op::kCast) v = v.node->operand(0);
    if (v.dtype() != dtype_) return std::nullopt;
    return v;
  }

  const ir::Graph& graph_;
  const Users& users_;
  const std::set<const Node*>& claimed_;
  const bool gpu_;
  DType dtype_;
  Value cur_;
  Chain now_;
  std::optional<Chain> best_;
};

// The fused call in the new graph, with the shape that the chain ends in.
Value Emit(const Chain& chain, rewrite::Rebuild& r) {
  const ir::TensorType& type = chain.base->results()[0];
  ir::Builder& b = r.builder();
  bool conv = chain.base->op() == Op::kConv;
  std::vector<Value> operands = r.MapAll(chain.base->operands());
  size_t next = 0;
  for (const std::string& step : chain.steps) {
    if (step != "bias" && step != "residual") continue;
    Value extra = r.Map(chain.extras[next++]);
    std::vector<Expr> bias = {conv ? type.shape[1] : type.shape.back()};
    operands.push_back(b.Reshape(extra, step == "bias" ? bias : type.shape));
  }
  ir::Attrs attrs = chain.base->attrs();
  attrs["base"] = std::string(conv ? "conv" : "matmul");
  attrs["epilogue"] = chain.steps;
  return b.Reshape(b.Emit(Op::kFused, operands, std::move(attrs), {type}), chain.end.shape());
}

bool MayHaveEpilogue(const Node& node, bool gpu) {
  if (node.op() != Op::kMatMul && node.op() != Op::kConv) return false;
  const DType dtype = node.results()[0].dtype;
  if (!gpu) return ir::IsFloat(dtype);
  return ir::IsFloat(dtype) && dtype != DType::kF64 && (node.op() == Op::kMatMul || node.Int("transposed") == 0);
}

absl::StatusOr<ir::Graph> FormEpilogues(const ir::Graph& graph, bool gpu) {
  Users users(graph);
  std::set<const Node*> claimed;
  std::map<const Node*, Chain> chains;  // by the node of `end`
  for (const Node& node : graph.nodes()) {
    if (!MayHaveEpilogue(node, gpu)) continue;
    if (std::optional<Chain> chain = Walk(graph, node, users, claimed, gpu).Run()) {
      claimed.insert(chain->nodes.begin(), chain->nodes.end());
      chains.emplace(chain->end.node, *std::move(chain));
    }
  }
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const auto chain = chains.find(&node);
    return chain != chains.end() ? Emit(chain->second, r) : Value();
  });
}

}  // namespace

absl::StatusOr<ir::Graph> FormLibraryEpilogues(const ir::Graph& graph) { return FormEpilogues(graph, /*gpu=*/false); }
absl::StatusOr<ir::Graph> FormGpuEpilogues(const ir::Graph& graph) { return FormEpilogues(graph, /*gpu=*/true); }

}  // namespace preheat::passes
