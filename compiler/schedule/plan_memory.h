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

// Places buffers so that no two that live at once overlap. With constant sizes the largest are placed first, each at
// the lowest gap (the greedy-by-size method of Pisarchyk and Lee, 2020). With symbolic ones a place is used again by
// buffers of the very same size only, which needs no knowledge of which size is larger.
Arena PlanMemory(const std::vector<Lifetime>& lifetimes);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_PLAN_MEMORY_H_
