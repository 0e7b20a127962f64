#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "compiler/schedule/merge_groups.h"

namespace preheat::schedule {

using ir::Expr;
using ir::Value;

namespace {

constexpr int64_t kFewBlocks = 8;  // fewer blocks of rows than this do not keep the threads busy

class BlockSumMerge {
 public:
  explicit BlockSumMerge(Groups& groups) : g_(groups) {}

  void Run() {
    std::map<Value, std::vector<int>> rows;  // groups over rows, by what they read and compute
    for (int g = 0; g < g_.size(); ++g) {
      if (!g_[g].alive || g_[g].call || g_[g].kind != RegionKind::kRow) continue;
      for (const Access& access : g_[g].accesses) rows[access.input].push_back(g);
      for (Value root : g_[g].roots) rows[root].push_back(g);
    }
    for (int g = 0; g < g_.size(); ++g) {
      if (!IsBlockSums(g_[g])) continue;
      std::set<int, std::greater<int>> candidates;
      for (const Access& access : g_[g].accesses) {
        auto it = rows.find(access.input);
        if (it != rows.end()) candidates.insert(it->second.begin(), it->second.end());
      }
      for (int row : candidates) {
        if (TryBlockSums(g, row)) break;
      }
    }
  }

 private:
  bool IsBlockSums(const Group& group) const {
    if (!group.alive || group.call || group.kind != RegionKind::kColumn) return false;
    const Expr total = Total(g_.DomainOf(group.roots[0]));
    bool any = false;
    for (Value root : group.roots) {
      any |= IsBlockSum(*root.node);
      if (!IsBlockSum(*root.node) && (ir::IsReduction(root.node->op()) || root.type().NumElements() != total))
        return false;
      if (Total(g_.DomainOf(root)) != total) return false;
    }
    return any;
  }

  bool TryBlockSums(int sums, int row) {
    Group &s = g_[sums], &r = g_[row];
    if (!s.alive || !r.alive || s.nodes + r.nodes > kMaxRegionNodes) return false;
    const ir::Node* sum = nullptr;
    for (Value root : s.roots) {
      if (IsBlockSum(*root.node)) sum = root.node;
    }
    const std::vector<Expr>& shape = sum->operand(0).shape();
    const int64_t block = *shape[1].constant();
    if (*shape[0].constant() < kFewBlocks) return false;
    if (r.outer != shape[0] * shape[1] || (r.block != 0 && r.block != block)) return false;
    const Expr total = ir::NumElements(shape);
    if (std::none_of(r.roots.begin(), r.roots.end(), [&](Value v) { return Total(g_.DomainOf(v)) == total; }))
      return false;
    if (!RowByRow(s, row, total, r.outer) || !RowByRow(r, sums, total, r.outer)) return false;
    if (g_.PathAround(row, sums) || g_.PathAround(sums, row)) return false;
    g_.Absorb(sums, row, RegionKind::kRow, Expr(r.outer));
    r.block = block;
    return true;
  }

  // True when what `reader` reads of the other group is an element at the same place, or one a row.
  bool RowByRow(const Group& reader, int other, const Expr& total, const Expr& rows) const {
    for (const Access& access : reader.accesses) {
      if (g_.Of(access.input) != other) continue;
      if (IsBlockSum(*access.input.node)) return false;
      const Domain& d = g_.DomainOf(access.root);
      const ir::Ranges& ranges = d.ranges;
      const Expr count = access.input.type().NumElements();
      if (count != total && count != rows) return false;
      if (PrefixOf(d, ranges.Simplify(Flatten(access.index, access.input.shape())), count) == 0) return false;
    }
    return true;
  }

  Groups& g_;
};

}  // namespace

void MergeBlockSums(Groups& groups) { BlockSumMerge(groups).Run(); }

}  // namespace preheat::schedule
