#ifndef PREHEAT_COMPILER_PASSES_USERS_H_
#define PREHEAT_COMPILER_PASSES_USERS_H_

#include <set>
#include <vector>

#include "compiler/ir/graph.h"

namespace preheat::passes {

// Who uses each value of a graph, which must outlive this.
class Users {
 public:
  explicit Users(const ir::Graph& graph);

  // The nodes with this operand, in order, each once.
  const std::vector<const ir::Node*>& Of(ir::Value value) const { return nodes_[value.node->id()][value.index]; }
  bool IsOutput(ir::Value value) const { return outputs_.count(value) != 0; }
  // The one node that uses it (perhaps twice); null when there are several, none, or it is an output too.
  const ir::Node* Only(ir::Value value) const {
    return IsOutput(value) || Of(value).size() != 1 ? nullptr : Of(value)[0];
  }

 private:
  std::vector<std::vector<std::vector<const ir::Node*>>> nodes_;  // by node id, result
  std::set<ir::Value> outputs_;
};

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_USERS_H_
