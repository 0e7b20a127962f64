#include "compiler/passes/merge_matmul_views.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::Expr;
using ir::Op;
using ir::Value;

bool IsOne(const Expr& size) { return size == Expr(1); }

std::vector<Expr> LastTwo(const Value& v) { return {v.shape().end() - 2, v.shape().end()}; }

// What is broadcast along every batch dimension to give `v`, as a matrix; null when it is not.
Value SharedMatrix(Builder& b, Value v) {
  if (v.node->op() != Op::kBroadcast) return {};
  Value from = v.node->operand(0);
  bool shared = std::all_of(from.shape().begin(), from.shape().end() - 2, IsOne) && LastTwo(from) == LastTwo(v);
  return shared ? b.Reshape(from, LastTwo(from)) : Value{};
}

Value MergeShared(Builder& b, Value x, Value w) {
  Value matrix = SharedMatrix(b, w);
  if (!matrix) return {};
  Expr rows = ir::NumElements(absl::MakeConstSpan(x.shape()).first(x.shape().size() - 1));
  return b.MatMul(b.Reshape(x, {rows, x.shape().back()}), matrix);
}

// Without the batch dimensions that have one element.
Value DropOnes(Builder& b, Value x, Value y) {
  size_t batch = x.shape().size() - 2;
  auto keep = [&](const Value& v) {
    std::vector<Expr> shape;
    for (size_t i = 0; i < batch; ++i) {
      if (!IsOne(v.shape()[i])) shape.push_back(v.shape()[i]);
    }
    shape.insert(shape.end(), v.shape().end() - 2, v.shape().end());
    return shape;
  };
  if (keep(x).size() == x.shape().size()) return {};
  Value left = b.Reshape(x, keep(x));  // one after the other: the order of a call's arguments is the compiler's
  Value right = b.Reshape(y, keep(y));
  return b.MatMul(left, right);
}

}  // namespace

absl::StatusOr<ir::Graph> MergeMatmulViews(const ir::Graph& graph) {
  return rewrite::ReplaceWhere(graph, [](const ir::Node& node, rewrite::Rebuild& r) {
    if (node.op() != Op::kMatMul || node.results()[0].rank() < 3) return Value();
    Builder& b = r.builder();
    Value x = r.Map(node.operand(0)), y = r.Map(node.operand(1));
    Value merged = MergeShared(b, x, y);
    if (!merged) merged = DropOnes(b, x, y);
    return merged ? b.Reshape(merged, node.results()[0].shape) : Value();
  });
}

}  // namespace preheat::passes
