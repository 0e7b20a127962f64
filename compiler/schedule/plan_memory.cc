#include "compiler/schedule/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace preheat::schedule {

using ir::Expr;

namespace {

Expr Aligned(const Expr& bytes) { return Expr::CeilDiv(bytes, kBufferAlignment) * kBufferAlignment; }

Arena PlanConstant(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](size_t i) { return *Aligned(lifetimes[i].bytes).constant(); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size(a) > size(b); });
  std::vector<int64_t> offsets(lifetimes.size());
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (size_t i : order) {
    int64_t at = 0;
    for (size_t other : placed) {
      bool together = lifetimes[other].first <= lifetimes[i].last && lifetimes[i].first <= lifetimes[other].last;
      if (!together) continue;
      if (offsets[other] >= at + size(i)) break;
      at = std::max(at, offsets[other] + size(other));
    }
    offsets[i] = at;
    total = std::max(total, at + size(i));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }),
        i);
  }
  return {{offsets.begin(), offsets.end()}, total};
}

Arena PlanSymbolic(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].first < lifetimes[b].first; });
  struct Place {
    Expr offset;
    int free_after;
  };
  std::map<Expr, std::vector<Place>> places;  // by size
  Arena arena{std::vector<Expr>(lifetimes.size()), Expr(0)};
  for (size_t i : order) {
    Expr size = Aligned(lifetimes[i].bytes);
    Place* found = nullptr;
    for (Place& place : places[size]) {
      if (place.free_after < lifetimes[i].first) found = &place;
    }
    if (!found) {
      places[size].push_back({arena.bytes, -1});
      found = &places[size].back();
      arena.bytes = arena.bytes + size;
    }
    found->free_after = lifetimes[i].last;
    arena.offsets[i] = found->offset;
  }
  return arena;
}

}  // namespace

Arena PlanMemory(const std::vector<Lifetime>& lifetimes) {
  bool constant =
      std::all_of(lifetimes.begin(), lifetimes.end(), [](const Lifetime& l) { return l.bytes.is_constant(); });
  return constant ? PlanConstant(lifetimes) : PlanSymbolic(lifetimes);
}

}  // namespace preheat::schedule
