#include "compiler/capture/decompose/memory_order.h"

#include <algorithm>

namespace preheat::decompose {

using ir::Expr;

std::optional<std::vector<int64_t>> MemoryOrder(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  std::vector<int64_t> order;  // from the innermost
  std::vector<bool> placed(sizes.size(), false);
  Expr elements(1);
  const auto next = [&](size_t d) {
    return !placed[d] && (sizes[d] == Expr(1) || strides.empty() || strides[d] == elements);
  };
  while (order.size() < sizes.size()) {
    size_t d = sizes.size();
    while (d > 0 && !next(d - 1)) --d;
    if (d == 0) return std::nullopt;
    order.push_back(static_cast<int64_t>(d - 1));
    placed[d - 1] = true;
    elements = elements * sizes[d - 1];
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace preheat::decompose
