#include "compiler/schedule/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace preheat::schedule {

using ir::Expr;

namespace {

constexpr size_t kMostReordered = 4096;  // buffers for which other orders are tried
constexpr size_t kMostMoves = 64;        // of the highest buffer to the front of the order
constexpr size_t kMostMoveWork = size_t{1} << 24;

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

// In that order, each at the lowest gap.
Places PlaceInOrder(const std::vector<size_t>& order, const std::vector<int64_t>& sizes,
                    const std::vector<const Lifetime*>& lives) {
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

// How much lives from a step on, to the next one with another number.
std::map<int, int64_t> LiveFrom(const std::vector<int64_t>& sizes, const std::vector<const Lifetime*>& lives) {
  std::map<int, int64_t> live;
  for (size_t i = 0; i < sizes.size(); ++i) live[lives[i]->first] += sizes[i], live[lives[i]->last + 1] -= sizes[i];
  int64_t sum = 0;
  for (auto& [step, change] : live) change = sum += change;
  return live;
}

// The most that lives at the same time: no arena is smaller.
int64_t Fullest(const std::vector<int64_t>& sizes, const std::vector<const Lifetime*>& lives) {
  int64_t most = 0;
  for (const auto& [step, live] : LiveFrom(sizes, lives)) most = std::max(most, live);
  return most;
}

// For each buffer the most that lives at the same time during its life.
std::vector<int64_t> Crowds(const std::vector<int64_t>& sizes, const std::vector<const Lifetime*>& lives) {
  const std::map<int, int64_t> live = LiveFrom(sizes, lives);
  std::vector<int64_t> crowds(sizes.size(), 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (auto it = live.lower_bound(lives[i]->first); it != live.end() && it->first <= lives[i]->last; ++it)
      crowds[i] = std::max(crowds[i], it->second);
  }
  return crowds;
}

using Ranks = std::vector<std::vector<int64_t>>;  // one a buffer for each order: the highest first

Ranks OtherRanks(const std::vector<int64_t>& sizes, const std::vector<const Lifetime*>& lives) {
  Ranks ranks(4, std::vector<int64_t>(sizes.size()));
  ranks[0] = Crowds(sizes, lives);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t length = int64_t{lives[i]->last} - lives[i]->first + 1;
    ranks[1][i] = length, ranks[2][i] = sizes[i] * length, ranks[3][i] = lives[i]->last;
  }
  return ranks;
}

// Places again and again, each time with the buffer that lies highest before all others, as long as that may help.
Places MoveHighest(std::vector<size_t> order, const std::vector<int64_t>& sizes,
                   const std::vector<const Lifetime*>& lives, int64_t least, Places best) {
  const size_t moves = std::min(kMostMoves, kMostMoveWork / (order.size() * order.size()));
  Places now = best;
  for (size_t move = 0; move < moves && best.total > least; ++move) {
    const auto highest =
        std::find_if(order.begin(), order.end(), [&](size_t i) { return now.offsets[i] + sizes[i] == now.total; });
    std::rotate(order.begin(), highest, highest + 1);
    now = PlaceInOrder(order, sizes, lives);
    if (now.total < best.total) best = now;
  }
  return best;
}

// The largest first. Where that leaves gaps at the fullest step, other orders are tried: those first that live in a
// crowd, or long, or take much for long, or end late; then the best of these with a few buffers moved to its front.
Places Place(const std::vector<int64_t>& sizes, const std::vector<const Lifetime*>& lives) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  Places best = PlaceInOrder(order, sizes, lives);
  const int64_t least = Fullest(sizes, lives);
  if (best.total == least || sizes.size() > kMostReordered) return best;
  std::vector<size_t> best_order = order;
  for (const std::vector<int64_t>& rank : OtherRanks(sizes, lives)) {
    std::vector<size_t> other = order;
    std::stable_sort(other.begin(), other.end(), [&](size_t a, size_t b) { return rank[a] > rank[b]; });
    Places places = PlaceInOrder(other, sizes, lives);
    if (places.total < best.total) best = std::move(places), best_order = std::move(other);
    if (best.total == least) return best;
  }
  return MoveHighest(std::move(best_order), sizes, lives, least, std::move(best));
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
