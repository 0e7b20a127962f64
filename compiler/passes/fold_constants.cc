#include "compiler/passes/fold_constants.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/host_tensor.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

using ir::HostTensor;
using ir::Node;
using ir::Op;
using ir::Value;

// What folding may look at; a walk over more would cost more than it saves.
constexpr int64_t kMaxFoldedOperand = 1 << 16;  // elements

bool IsLeaf(Op op) { return op == Op::kConstant || op == Op::kFill || op == Op::kIota; }

// Views that repeat or surround elements: as data they would only be larger.
bool Grows(Op op) { return op == Op::kBroadcast || op == Op::kWindow || op == Op::kPad || op == Op::kConcat; }

bool SmallEnough(const ir::TensorType& type, int64_t max_elements) {
  std::optional<int64_t> elements = type.NumElements().constant();
  return elements && *elements <= max_elements;
}

// The element if all are equal, bit for bit.
std::optional<ir::Scalar> OnlyElement(const HostTensor& t) {
  if (t.elements() == 0 || ir::IsComplex(t.dtype)) return std::nullopt;
  size_t size = static_cast<size_t>(ir::DTypeSize(t.dtype));
  for (size_t at = size; at < t.data.size(); at += size) {
    if (t.data.compare(at, size, t.data, 0, size) != 0) return std::nullopt;
  }
  return ir::IsFloat(t.dtype) ? ir::Scalar(t.Float(0)) : ir::Scalar(t.Int(0));
}

class Folder {
 public:
  explicit Folder(const ir::Graph& graph) : graph_(graph), r_(graph) {}

  absl::StatusOr<ir::Graph> Run() {
    for (const Node& node : graph_.nodes()) {
      RETURN_IF_ERROR(r_.Copy(node));
      if (std::optional<Value> folded = Fold(node)) r_.Replace(node.result(), *folded);
    }
    return r_.Finish();
  }

 private:
  std::optional<Value> Fold(const Node& node) {
    if (node.results().size() != 1) return std::nullopt;
    if (node.op() == Op::kConstant) return AsFill(node);
    if (node.operands().empty()) return std::nullopt;
    std::vector<Value> operands = r_.MapAll(node.operands());
    bool fills = true;
    for (const Value& v : operands) {
      if (!IsKnown(v)) return std::nullopt;
      fills = fills && v.node->op() == Op::kFill;
    }
    if (fills && ir::IsPointwise(node.op())) return FoldElement(node, operands);
    if (Grows(node.op()) || node.op() == Op::kExtern || ir::IsControl(node.op())) return std::nullopt;
    return FoldData(node, operands);
  }

  // A constant, or a view of constants: such views stay in the graph, and what is computed from them folds.
  static bool IsKnown(Value v, int depth = 0) {
    constexpr int kMaxDepth = 8;
    if (IsLeaf(v.node->op())) return true;
    if (!Grows(v.node->op()) || depth == kMaxDepth) return false;
    for (const Value& operand : v.node->operands()) {
      if (!IsKnown(operand, depth + 1)) return false;
    }
    return true;
  }

  // REQUIRES: IsKnown(v). Nothing when it is too large, of unknown size or has no value.
  static std::optional<HostTensor> Known(Value v) {
    if (!SmallEnough(v.type(), kMaxFoldedOperand)) return std::nullopt;
    std::optional<std::vector<HostTensor>> result =
        Compute(*v.node, {v.node->operands().begin(), v.node->operands().end()});
    return result ? std::optional<HostTensor>(std::move((*result)[0])) : std::nullopt;
  }

  static std::optional<std::vector<HostTensor>> Compute(const Node& node, const std::vector<Value>& operands) {
    std::vector<HostTensor> tensors;
    for (const Value& v : operands) {
      std::optional<HostTensor> tensor = Known(v);
      if (!tensor) return std::nullopt;
      tensors.push_back(*std::move(tensor));
    }
    std::vector<const HostTensor*> pointers;
    for (const HostTensor& t : tensors) pointers.push_back(&t);
    absl::StatusOr<std::vector<HostTensor>> result = ir::EvaluateNode(node, pointers, {});
    if (!result.ok()) return std::nullopt;
    return *std::move(result);
  }

  std::optional<Value> AsFill(const Node& node) {
    HostTensor data{node.results()[0].dtype, {}, ""};
    data.shape = {*node.results()[0].NumElements().constant()};
    data.data = node.String("data");
    std::optional<ir::Scalar> only = OnlyElement(data);
    if (!only) return std::nullopt;
    return r_.builder().Fill(*only, data.dtype, node.results()[0].shape);
  }

  // A pointwise operator on fills of any shape, symbolic ones included: one element stands for all.
  std::optional<Value> FoldElement(const Node& node, const std::vector<Value>& operands) {
    ir::Graph one;
    ir::Builder b(&one);
    std::vector<Value> scalars;
    for (const Value& v : operands) scalars.push_back(b.Fill(v.node->ScalarAttr("value"), v.dtype()));
    Value result = b.Emit(node.op(), scalars, node.attrs());
    if (!b.status().ok()) return std::nullopt;
    one.AddOutput({result, {}});
    absl::StatusOr<std::vector<HostTensor>> value = ir::Evaluate(one, {}, {});
    if (!value.ok()) return std::nullopt;
    return r_.builder().Fill(*OnlyElement((*value)[0]), result.dtype(), node.results()[0].shape);
  }

  std::optional<Value> FoldData(const Node& node, const std::vector<Value>& operands) {
    const ir::TensorType& type = node.results()[0];
    if (!SmallEnough(type, kMaxFoldedBytes / ir::DTypeSize(type.dtype))) return std::nullopt;
    std::optional<std::vector<HostTensor>> result = Compute(node, operands);
    if (!result) return std::nullopt;
    if (std::optional<ir::Scalar> only = OnlyElement((*result)[0])) {
      return r_.builder().Fill(*only, type.dtype, type.shape);
    }
    return r_.builder().Constant(type.dtype, type.shape, std::move((*result)[0].data));
  }

  const ir::Graph& graph_;
  rewrite::Rebuild r_;
};

}  // namespace

absl::StatusOr<ir::Graph> FoldConstants(const ir::Graph& graph) { return Folder(graph).Run(); }

}  // namespace preheat::passes
