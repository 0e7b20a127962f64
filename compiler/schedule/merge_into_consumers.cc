#include <algorithm>
#include <set>
#include <vector>

#include "compiler/schedule/merge_groups.h"

namespace preheat::schedule {

using ir::Expr;

namespace {

constexpr int64_t kFewRows = 16;  // fewer rows than this do not carry a large region
constexpr int64_t kLargeRegion = 1 << 16;

class ConsumerMerge {
 public:
  ConsumerMerge(Groups& groups, const std::set<ir::Value>& apart) : g_(groups), apart_(apart) {}

  // Consumers come after producers in graph order; going forward, a producer has already absorbed its own.
  void Run() {
    for (int c = 0; c < g_.size(); ++c) {
      bool merged = true;
      while (merged) {
        merged = false;
        for (int p : g_.ProducersOf(c)) {
          if (!TryMerge(p, c)) continue;
          merged = true;
          break;
        }
      }
    }
  }

 private:
  bool TryMerge(int p, int c) {
    Group &producer = g_[p], &consumer = g_[c];
    if (producer.call || consumer.call) return false;
    for (ir::Value root : producer.roots) {
      if (apart_.count(root) != 0) return false;
    }
    if (producer.nodes + consumer.nodes > kMaxRegionNodes) return false;
    RegionKind kind = consumer.kind;
    Expr outer = consumer.outer;
    for (const Access& access : consumer.accesses) {
      if (g_.Of(access.input) != p) continue;
      if (!Compatible(producer, access, kind, outer)) return false;
    }
    if (g_.PathAround(p, c)) return false;
    g_.Absorb(p, c, kind, outer);
    return true;
  }

  // May the consumer's loop compute what it reads by this access? Sets the kind and outer size it then has.
  bool Compatible(const Group& producer, const Access& access, RegionKind& kind, Expr& outer) const {
    const Domain& d = g_.DomainOf(access.root);
    const ir::Ranges& ranges = d.ranges;
    Expr at = ranges.Simplify(Flatten(access.index, access.input.shape()));
    Expr count = access.input.type().NumElements();
    bool producer_loops = producer.kind != RegionKind::kPointwise;
    bool reduction = ir::IsReduction(access.root.node->op());
    if (reduction && at == KeptPosition(d) && count == access.root.type().NumElements() && count != Total(d)) {
      return OuterMatches(producer, kind, outer, count);  // one a row or column of a reduction
    }
    size_t prefix = PrefixOf(d, at, count);
    if (prefix == 0 && !(count == Expr(1))) return false;
    bool whole = count == Total(d);
    if (whole) {
      if (!producer_loops) return true;
      if (reduction && !d.trailing) return false;
      if (kind == RegionKind::kPointwise) {
        if (producer.kind == RegionKind::kColumn && producer.outer != count) return false;
        if (!HasPrefix(d, producer.outer)) return false;
        kind = producer.kind, outer = producer.outer;
        return true;
      }
      return kind == producer.kind && outer == producer.outer;
    }
    // The value is one a row of the consumer.
    if (reduction) return false;
    if (producer.kind == RegionKind::kColumn) return false;
    if (producer_loops && producer.outer != count) return false;
    if (kind == RegionKind::kColumn) return false;
    if (kind == RegionKind::kRow) return outer == count;
    if (TooFewRows(count, Total(d))) return false;
    kind = RegionKind::kRow, outer = count;
    return true;
  }

  bool OuterMatches(const Group& producer, RegionKind kind, const Expr& outer, const Expr& count) const {
    if (outer != count) return false;
    return producer.kind == RegionKind::kPointwise || (producer.kind == kind && producer.outer == count);
  }

  static bool TooFewRows(const Expr& rows, const Expr& total) {
    auto r = rows.constant();
    auto t = total.constant();
    return r && t && *r<kFewRows&& * t> kLargeRegion;
  }

  Groups& g_;
  const std::set<ir::Value>& apart_;
};

}  // namespace

void MergeIntoConsumers(Groups& groups, const std::set<ir::Value>& apart) { ConsumerMerge(groups, apart).Run(); }

}  // namespace preheat::schedule
