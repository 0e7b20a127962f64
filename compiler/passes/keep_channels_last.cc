#include "compiler/passes/keep_channels_last.h"

#include <algorithm>

#include "compiler/passes/channel_order.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

bool IsConvolution(const Node& node) {
  return node.op() == Op::kConv || (node.op() == Op::kFused && node.String("base") == "conv");
}

// Of one pixel everything lies alike. Other dtypes are not oneDNN's.
bool MayLieLast(const ir::TensorType& type) {
  if (type.dtype != ir::DType::kF32 && type.dtype != ir::DType::kBF16) return false;
  return type.rank() >= 3 &&
         std::any_of(type.shape.begin() + 2, type.shape.end(), [](const Expr& size) { return size != Expr(1); });
}

bool ReadByConvolution(const Users& users, Value value) {
  return std::any_of(users.Of(value).begin(), users.Of(value).end(),
                     [&](const Node* user) { return IsConvolution(*user) && user->operand(1) != value; });
}

}  // namespace

absl::StatusOr<ir::Graph> KeepChannelsLast(const ir::Graph& graph) {
  const Users users(graph);
  rewrite::Rebuild r(graph);
  for (const Node& node : graph.nodes()) {
    RETURN_IF_ERROR(r.Copy(node));
    if (!IsConvolution(node) || !MayLieLast(node.results()[0])) continue;
    if (users.IsOutput(node.result()) || !ReadByConvolution(users, node.result())) continue;
    ir::Builder& b = r.builder();
    const int rank = node.results()[0].rank();
    r.Replace(node.result(), b.Permute(b.Permute(r.Map(node.result()), ToChannelsLast(rank)), FromChannelsLast(rank)));
    RETURN_IF_ERROR(b.status());
  }
  return r.Finish();
}

}  // namespace preheat::passes
