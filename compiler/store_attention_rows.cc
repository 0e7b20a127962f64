#include "compiler/store_attention_rows.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/stored.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/layout.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

using ir::Expr;
using ir::Value;

bool IsAttention(const ir::Node& node) { return node.op() == ir::Op::kFused && node.Has("scale"); }

class Places {
 public:
  explicit Places(const ir::Graph& graph) : layouts_(graph), sizes_(graph.SymbolRanges()) {}

  // Do the elements of a mask's rows lie side by side?
  bool MaskFits(Value mask) const {
    const auto strides_of = [&](Value v) { return layouts_.StridesOf(v); };
    const std::optional<schedule::AffineView> view = schedule::PeelViews(mask, strides_of, sizes_);
    return !view || view->strides.back() == Expr(1) || mask.shape().back() == Expr(1);
  }

  // Does the value lie as attention wants it? The log sums dense; of matrices the elements along `dim` side by side and
  // all rows aligned.
  bool Fit(Value value, size_t dim) const {
    const auto strides_of = [&](Value v) { return layouts_.StridesOf(v); };
    const std::optional<schedule::AffineView> view = schedule::PeelViews(value, strides_of, sizes_);
    if (!view) return true;  // it gets memory of its own
    const std::vector<Expr> dense = ir::RowMajorStrides(value.shape());
    const bool log_sums = value.dtype() == ir::DType::kF32;
    bool fit = log_sums || (view->strides[dim] == Expr(1) && Aligned(view->offset, value));
    for (size_t d = 0; fit && d < dense.size(); ++d) {
      if (value.shape()[d] == Expr(1) || (!log_sums && d == dim)) continue;
      fit = log_sums ? view->strides[d] == dense[d] : Aligned(view->strides[d], value);
    }
    return fit;
  }

 private:
  bool Aligned(const Expr& elements, Value of) const {
    const Expr unit(16 / ir::DTypeSize(of.dtype()));
    return sizes_.Simplify(Expr::Mod(elements, unit)) == Expr(0);
  }

  const schedule::Layouts layouts_;
  const ir::Ranges sizes_;
};

absl::Status StoreFor(const ir::Node& node, const Places& places, rewrite::Rebuild& r) {
  r.builder().SetDebugId(node.debug_id());
  std::vector<Value> operands = r.MapAll(node.operands());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value operand = node.operand(static_cast<int>(i));
    const size_t rank = operand.shape().size();
    const bool mask = i == 2 && node.Strings("epilogue").front() == "mask";
    if (mask ? places.MaskFits(operand) : places.Fit(operand, i == 1 ? rank - 2 : rank - 1)) continue;
    const auto stored = [&](Value v) { return passes::Stored(r.builder(), v); };
    operands[i] = i == 1 ? r.builder().Transpose(stored(r.builder().Transpose(operands[i], -2, -1)), -2, -1)
                         : stored(operands[i]);
  }
  const std::vector<Value> results =
      r.builder().EmitAll(node.op(), operands, node.attrs(), {node.results().begin(), node.results().end()});
  for (size_t i = 0; i < results.size(); ++i) {
    const Value old = node.result(static_cast<int>(i));
    const bool fit = places.Fit(old, old.shape().size() - 1);
    r.Replace(old, fit ? results[i] : passes::Stored(r.builder(), results[i]));
  }
  return r.builder().status();
}

}  // namespace

absl::StatusOr<ir::Graph> StoreAttentionRows(const ir::Graph& graph) {
  const Places places(graph);
  rewrite::Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) {
    RETURN_IF_ERROR(IsAttention(node) ? StoreFor(node, places, r) : r.Copy(node));
  }
  return r.Finish();
}

}  // namespace preheat
