#ifndef PREHEAT_COMPILER_SCHEDULE_PLAN_MEMORY_H_
#define PREHEAT_COMPILER_SCHEDULE_PLAN_MEMORY_H_

#include <vector>

#include "compiler/ir/expr.h"

namespace preheat::schedule {

inline constexpr int64_t kBufferAlignment = 64;  // bytes

// A buffer and the steps during which it holds something, both inclusive.
struct Lifetime {
  ir::Expr bytes;
  int first = 0;
  int last = 0;
};

struct Arena {
  std::vector<ir::Expr> offsets;  // bytes, one a lifetime, aligned
  ir::Expr bytes;                 // of the whole arena
};

// Places buffers so that no two that live at once overlap: the largest first, each at the lowest gap (the
// greedy-by-size method of Pisarchyk and Lee, 2020). Where that takes more than what lives at the fullest step, a few
// other orders are tried and the best is kept, with buffers moved where that helps. Symbolic sizes are compared where
// they are multiples of the same (4096*d0 and 512*d0); those of each kind have a part of the arena of their own.
Arena PlanMemory(const std::vector<Lifetime>& lifetimes);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_PLAN_MEMORY_H_
