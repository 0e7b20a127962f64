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

struct Places {
  std::vector<int64_t> offsets;
  int64_t total = 0;
};

// The largest first, each at the lowest gap.
Places Place(const std::vector<int64_t>& sizes, const std::vector<const Lifetime*>& lives) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  Places places{std::vector<int64_t>(sizes.size()), 0};
  std::vector<Placed> placed;
  for (size_t i : order) {
    const int64_t at = LowestGap(placed, *lives[i], sizes[i]);
    places.offsets[i] = at;
    places.total = std::max(places.total, at + sizes[i]);
    auto after = std::upper_bound(placed.begin(), placed.end(), at,
                                  [](int64_t begin, const Placed& other) { return begin < other.begin; });
    placed.insert(after, {at, at + sizes[i], lives[i]->first, lives[i]->last});
  }
  return places;
}

// A size as a number times what it has of symbols: 4096*d0 is 4096 times d0, a constant that many times 1.
struct Multiple {
  int64_t factor = 0;
  Expr of = 1;
};

Multiple MultipleOf(const Expr& e) {
  if (auto constant = e.constant()) return {*constant, 1};
  int64_t factor = 0;
  for (const auto& [monomial, coefficient] : e.terms()) factor = std::gcd(factor, coefficient);
  Expr of;
  for (const auto& [monomial, coefficient] : e.terms()) {
    Expr term(coefficient / factor);
    for (const Expr::Atom& atom : monomial) term = term * Expr::FromAtom(atom);
    of = of + term;
  }
  return {factor, of};
}

// Buffers whose sizes are multiples of the same.
struct Commensurable {
  std::vector<size_t> buffers;
  std::vector<int64_t> factors;
  std::vector<const Lifetime*> lives;
};

// In units of what all factors are multiples of, rounded up to the alignment. Constants are rounded each for itself.
Expr UnitOf(Commensurable& group, const Expr& of) {
  if (of == Expr(1)) {
    for (int64_t& size : group.factors) size = *Aligned(size).constant();
    return 1;
  }
  int64_t common = 0;
  for (int64_t factor : group.factors) common = std::gcd(common, factor);
  for (int64_t& factor : group.factors) factor /= common;
  return Aligned(of * Expr(common));
}

}  // namespace

Arena PlanMemory(const std::vector<Lifetime>& lifetimes) {
  std::map<Expr, Commensurable> groups;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Multiple size = MultipleOf(lifetimes[i].bytes);
    Commensurable& group = groups[size.of];
    group.buffers.push_back(i);
    group.factors.push_back(size.factor);
    group.lives.push_back(&lifetimes[i]);
  }
  Arena arena{std::vector<Expr>(lifetimes.size()), Expr(0)};
  for (auto& [of, group] : groups) {
    const Expr unit = UnitOf(group, of);
    const Places places = Place(group.factors, group.lives);
    for (size_t i = 0; i < group.buffers.size(); ++i)
      arena.offsets[group.buffers[i]] = arena.bytes + unit * Expr(places.offsets[i]);
    arena.bytes = arena.bytes + unit * Expr(places.total);
  }
  return arena;
}

}  // namespace preheat::schedule
