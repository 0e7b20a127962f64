#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_MEMORY_ORDER_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_MEMORY_ORDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/expr.h"

namespace preheat::decompose {

// The dimensions of a dense tensor from the one that is outermost in memory to the innermost; those of one element may
// stand anywhere and keep their places as far as the others do. No strides: row-major. Nullopt for a tensor with gaps
// or overlaps, or whose sizes do not tell.
std::optional<std::vector<int64_t>> MemoryOrder(const std::vector<ir::Expr>& sizes,
                                                const std::vector<ir::Expr>& strides);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_MEMORY_ORDER_H_
