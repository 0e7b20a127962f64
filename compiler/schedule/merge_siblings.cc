#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "compiler/schedule/merge_groups.h"

namespace preheat::schedule {

using ir::Value;

namespace {

class SiblingMerge {
 public:
  explicit SiblingMerge(Groups& groups) : g_(groups) {}

  void Run(bool by_producer) {
    std::map<Value, std::vector<int>> readers;
    for (int g = 0; g < g_.size(); ++g) {
      if (!g_[g].alive || g_[g].call) continue;
      if (by_producer && g_[g].kind != RegionKind::kColumn) continue;
      std::set<Value> inputs;
      for (const Access& access : g_[g].accesses) {
        const int producer = g_.Of(access.input);
        inputs.insert(by_producer && producer != Groups::kNone ? g_[producer].roots[0] : access.input);
      }
      for (Value input : inputs) readers[input].push_back(g);
    }
    for (auto& [input, groups] : readers) {
      for (size_t i = 0; i + 1 < groups.size() && i < 8; ++i) {
        for (size_t j = i + 1; j < groups.size() && j < i + 8; ++j) TrySiblings(groups[i], groups[j]);
      }
    }
  }

 private:
  void TrySiblings(int a, int b) {
    if (!g_[a].alive || !g_[b].alive || a == b) return;
    if (!SameLoops(g_[a], g_[b])) return;
    if (g_[a].nodes + g_[b].nodes > kMaxRegionNodes) return;
    if (g_.Reaches(a, b) || g_.Reaches(b, a)) return;
    g_.Absorb(a, b, g_[b].kind, g_[b].outer);
  }

  bool SameLoops(const Group& a, const Group& b) const {
    if (a.kind != b.kind || a.outer != b.outer) return false;
    const Domain &da = g_.DomainOf(a.roots[0]), &db = g_.DomainOf(b.roots[0]);
    return da.sizes == db.sizes && da.reduced == db.reduced;
  }

  Groups& g_;
};

}  // namespace

void MergeSiblings(Groups& groups, bool by_producer) { SiblingMerge(groups).Run(by_producer); }

}  // namespace preheat::schedule
