#ifndef PREHEAT_COMPILER_SCHEDULE_GROUPS_H_
#define PREHEAT_COMPILER_SCHEDULE_GROUPS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/find_roots.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// One read of a value in memory, from the loops of one root.
struct Access {
  ir::Value root;
  ir::Value input;
  Index index;  // in the root's loop variables
};

// The loops over a root's elements: for a reduction those of its operand.
struct Domain {
  std::vector<ir::Expr> sizes;
  Index vars;
  std::vector<bool> reduced;
  bool trailing = true;  // reduced dimensions are the last ones
  ir::Ranges ranges;     // of the loop variables and of all sizes
};

// A group of roots computed by one kernel.
struct Group {
  bool alive = true;
  std::vector<ir::Value> roots;
  RegionKind kind = RegionKind::kPointwise;
  ir::Expr outer = 1;
  std::vector<Access> accesses;
  size_t nodes = 0;
  int64_t block = 0;               // as Region's
  const ir::Node* call = nullptr;  // a call or node kernel: never merged
};

ir::Expr Total(const Domain& d);
// The row-major position among the dimensions that are not reduced.
ir::Expr KeptPosition(const Domain& d);
// The number of leading dimensions whose row-major position is `at` and whose count is `count`; 0 when none.
size_t PrefixOf(const Domain& d, const ir::Expr& at, const ir::Expr& count);
// Whether leading dimensions have so many elements.
bool HasPrefix(const Domain& d, const ir::Expr& count);

// The groups of a graph: one for each root and each call at first, in graph order; then some are merged.
class Groups {
 public:
  static constexpr int kNone = -1;

  // What is given must outlive this.
  Groups(const ir::Graph& graph, const Layouts& layouts, const Roots& roots);

  int size() const { return static_cast<int>(groups_.size()); }
  Group& operator[](int g) { return groups_[g]; }
  const Group& operator[](int g) const { return groups_[g]; }
  // The group that computes a value; kNone for what is no root.
  int Of(ir::Value value) const { return group_of_[value]; }
  const Domain& DomainOf(ir::Value root) const;
  // Groups that compute what c reads, nearest first.
  std::vector<int> ProducersOf(int c) const;

  // True when the consumer depends on the producer by another way too, through a group that stays apart; or that is too
  // far to tell.
  bool PathAround(int p, int c);
  // True when `to` depends on `from`, or that is too far to tell.
  bool Reaches(int from, int to) { return Found(from, {to}); }

  // Merges p into c, which then has that kind and number of rows.
  void Absorb(int p, int c, RegionKind kind, const ir::Expr& outer);

 private:
  Domain MakeDomain(ir::Value root) const;
  void AddCall(const ir::Node& node);
  void AddRoot(ir::Value root);
  void NoteConsumers();
  void Classify(Group& group) const;
  void CollectAccesses(Group& group, ir::Value root);
  void Walk(Group& group, ir::Value root, ir::Value value, const Index& index, const ir::Ranges& ranges, bool top,
            std::set<std::pair<ir::Value, Index>>& seen, size_t& reads);
  void WalkIndexed(Group& group, ir::Value root, const ir::Node& node, const Index& index, const ir::Ranges& ranges,
                   std::set<std::pair<ir::Value, Index>>& seen, size_t& reads);
  bool Found(int wanted, std::vector<int> stack);
  int Earliest(int g) const;
  int Latest(int g) const;
  void RaiseLatest(int group, int id);

  const Layouts& layouts_;
  const Roots& roots_;
  const ir::Ranges ranges_;                                     // of the graph's symbols
  mutable std::vector<std::unique_ptr<const Domain>> domains_;  // by node id: made when first asked for
  std::vector<Group> groups_;
  ir::ValueMap<int> group_of_;
  std::vector<std::set<int>> consumers_;  // by the numbers that groups had before they were merged
  std::vector<int> into_;                 // the group that one went into, itself while it is alive
  std::vector<int> latest_;               // of the nodes that a group and all it depends on compute: the last
  std::vector<int> searched_;             // by group: the last search that came through
  int search_ = 0;
  ir::Value last_extern_;
};

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_GROUPS_H_
