#ifndef PREHEAT_COMPILER_SCHEDULE_ACCESS_H_
#define PREHEAT_COMPILER_SCHEDULE_ACCESS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/graph.h"

namespace preheat::schedule {

// Views as index arithmetic: which element of an operand a view's element is.

using Index = std::vector<ir::Expr>;  // one expression a dimension

// Row-major position of an element, and the reverse. The reverse has no remainder on the first dimension, so the
// position must be in range.
ir::Expr Flatten(absl::Span<const ir::Expr> index, absl::Span<const ir::Expr> shape);
Index Unflatten(const ir::Expr& position, absl::Span<const ir::Expr> shape, const ir::Ranges& ranges);

// For a view with one operand other than Pad: the operand's index of the result's element `index`. Pad too, whose
// index may then lie outside the operand: see PadCondition.
// REQUIRES: IsView(node.op()) and not Concat.
Index ThroughView(const ir::Node& node, const Index& index, const ir::Ranges& ranges);

// Expressions that are all >= 0 exactly when a Pad's element comes from its operand. Those that `ranges` proves are
// left out.
std::vector<ir::Expr> PadCondition(const ir::Node& pad, const Index& operand_index, const ir::Ranges& ranges);

// A value that lies in another's memory: element i of it is element offset + sum(i_k * strides_k) of the base.
struct AffineView {
  ir::Value base;
  std::vector<ir::Expr> strides;  // in elements of the base's memory
  ir::Expr offset;
};

// Follows views (none, for a value that is no view) down to a base: a value that is no view, or a Pad, Concat or Flip,
// which have memory of their own. `strides_of` gives the layout of a base in memory. Null when some view on the way is
// not affine in the result's index (a reshape that splits strides).
std::optional<AffineView> PeelViews(ir::Value value, const std::function<std::vector<ir::Expr>(ir::Value)>& strides_of,
                                    const ir::Ranges& sizes);

// The first value below views that is no view itself (Pad and Concat stop it).
ir::Value BaseOf(ir::Value value);

// coefficient and rest with e = coefficient * symbol + rest, neither holding the symbol; null when not linear.
std::optional<std::pair<ir::Expr, ir::Expr>> LinearIn(const ir::Expr& e, const std::string& symbol);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_ACCESS_H_
