#include "compiler/schedule/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace preheat::schedule {

using ir::Expr;

namespace {

Expr Aligned(const Expr& bytes) { return Expr::CeilDiv(bytes, kBufferAlignment) * kBufferAlignment; }

// A buffer that has its place: what the search for gaps looks at, side by side in memory.
struct Placed {
  int64_t begin, end;
  int first, last;
};

// The lowest gap of that size between the buffers that live at the same time. `placed` is ordered by `begin`.
int64_t LowestGap(const std::vector<Placed>& placed, const Lifetime& life, int64_t size) {
  int64_t at = 0;
  for (const Placed& other : placed) {
    if (other.first > life.last || life.first > other.last) continue;
    if (other.begin >= at + size) break;
    at = std::max(at, other.end);
  }
  return at;
}

Arena PlanConstant(const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> sizes;
  for (const Lifetime& life : lifetimes) sizes.push_back(*Aligned(life.bytes).constant());
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<int64_t> offsets(lifetimes.size());
  std::vector<Placed> placed;
  int64_t total = 0;
  for (size_t i : order) {
    const int64_t at = LowestGap(placed, lifetimes[i], sizes[i]);
    offsets[i] = at;
    total = std::max(total, at + sizes[i]);
    auto after = std::upper_bound(placed.begin(), placed.end(), at,
                                  [](int64_t begin, const Placed& other) { return begin < other.begin; });
    placed.insert(after, {at, at + sizes[i], lifetimes[i].first, lifetimes[i].last});
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
