#include "compiler/store_library_operands.h"

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
bool IsProduct(const ir::Node& node) {
  return node.op() == ir::Op::kMatMul ||
         (node.op() == ir::Op::kFused && !IsAttention(node) && node.String("base") == "matmul");
}

bool IsOne(const Expr& size) { return size == Expr(1); }

// False where a stride is known to be too short for so many elements.
bool Spans(const Expr& stride, const Expr& elements) {
  const std::optional<int64_t> s = stride.constant(), n = elements.constant();
  return s && n ? *s >= *n : !s || *s > 0;
}

class Places {
 public:
  explicit Places(const ir::Graph& graph) : layouts_(graph), sizes_(graph.SymbolRanges()) {}

  // Do the elements of a mask's rows lie side by side?
  bool MaskFits(Value mask) const {
    const auto strides_of = [&](Value v) { return layouts_.StridesOf(v); };
    const std::optional<schedule::AffineView> view = schedule::PeelViews(mask, strides_of, sizes_);
    return !view || view->strides.back() == Expr(1) || mask.shape().back() == Expr(1);
  }

  // Do the rows of a value's matrices lie one behind the other, each contiguous? `or_columns`: its columns do as well.
  bool IsMatrix(Value value, bool or_columns) const {
    const auto strides_of = [&](Value v) { return layouts_.StridesOf(v); };
    const std::optional<schedule::AffineView> view = schedule::PeelViews(value, strides_of, sizes_);
    if (!view) return true;  // it gets memory of its own
    const size_t last = value.shape().size() - 1;
    const auto lie = [&](size_t line, size_t along) {
      const Expr &lines = value.shape()[line], &elements = value.shape()[along];
      return (IsOne(elements) || IsOne(view->strides[along])) && (IsOne(lines) || Spans(view->strides[line], elements));
    };
    return lie(last - 1, last) || (or_columns && lie(last, last - 1));
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

absl::Status StoreForAttention(const ir::Node& node, const Places& places, rewrite::Rebuild& r) {
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

absl::Status StoreForProduct(const ir::Node& node, const Places& places, rewrite::Rebuild& r) {
  r.builder().SetDebugId(node.debug_id());
  std::vector<Value> operands = r.MapAll(node.operands());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value operand = node.operand(static_cast<int>(i));
    const bool bias = operand.shape().size() < 2;
    if (!bias && !places.IsMatrix(operand, /*or_columns=*/i < 2))
      operands[i] = passes::Stored(r.builder(), operands[i]);
  }
  const Value old = node.result();
  std::vector<ir::TensorType> declared;
  if (node.op() == ir::Op::kFused) declared = {old.type()};  // a matmul's is inferred
  const Value result = r.builder().Emit(node.op(), operands, node.attrs(), std::move(declared));
  RETURN_IF_ERROR(r.builder().status());
  const bool plain = operands.size() == 2;  // nothing is added along its rows
  r.Replace(old, places.IsMatrix(old, /*or_columns=*/plain) ? result : passes::Stored(r.builder(), result));
  return r.builder().status();
}

absl::Status Visit(const ir::Node& node, const Places& places, rewrite::Rebuild& r) {
  if (IsAttention(node)) return StoreForAttention(node, places, r);
  return IsProduct(node) ? StoreForProduct(node, places, r) : r.Copy(node);
}

}  // namespace

absl::StatusOr<ir::Graph> StoreLibraryOperands(const ir::Graph& graph) {
  const Places places(graph);
  rewrite::Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) {
    RETURN_IF_ERROR(Visit(node, places, r));
  }
  return r.Finish();
}

}  // namespace preheat
