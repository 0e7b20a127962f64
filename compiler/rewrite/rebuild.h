#ifndef PREHEAT_COMPILER_REWRITE_REBUILD_H_
#define PREHEAT_COMPILER_REWRITE_REBUILD_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"

namespace preheat::rewrite {

// How a pass makes a new graph out of an old one, which must outlive it:
//
//   Rebuild r(graph);
//   for (const ir::Node& node : graph.nodes()) {
//     if (IsSpecial(node)) r.Replace(node.result(), ...built with r.builder()...);
//     else RETURN_IF_ERROR(r.Copy(node));
//   }
//   return r.Finish();
//
// Nodes keep their debug ids; those built while a node is replaced get that node's.
class Rebuild {
 public:
  explicit Rebuild(const ir::Graph& from);
  Rebuild(const Rebuild&) = delete;
  Rebuild& operator=(const Rebuild&) = delete;

  ir::Builder& builder() { return builder_; }

  // The new value that stands for an old one. REQUIRES: its node was copied or replaced before.
  ir::Value Map(ir::Value old) const { return values_[old]; }
  std::vector<ir::Value> MapAll(absl::Span<const ir::Value> old) const;

  // The same operator on the new values. Input nodes are there already: nothing happens. INTERNAL when an operand was
  // not copied or replaced before.
  absl::Status Copy(const ir::Node& node);

  // From now on `with`, a value of the new graph and of the same type, stands for `old`.
  void Replace(ir::Value old, ir::Value with) { values_[old] = with; }

  // Adds the outputs and hands the graph over; the builder's failure, if it had one.
  absl::StatusOr<ir::Graph> Finish();

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  ir::ValueMap<ir::Value> values_;
  ir::Builder builder_;
};

// live[id]: an output, or a node with an effect, needs that node. Inputs are always live.
std::vector<bool> LiveNodes(const ir::Graph& graph);

}  // namespace preheat::rewrite

#endif  // PREHEAT_COMPILER_REWRITE_REBUILD_H_
