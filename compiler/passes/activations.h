#ifndef PREHEAT_COMPILER_PASSES_ACTIVATIONS_H_
#define PREHEAT_COMPILER_PASSES_ACTIVATIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/passes/users.h"

namespace preheat::passes {

// An activation function spelled in core operators, found around its argument.
struct Activation {
  std::string name;  // as Op::kFused writes it: "gelu"
  ir::Value result;
  std::vector<const ir::Node*> nodes;  // all that compute it from its argument
};

// The activation that is all that becomes of `x`: nothing outside it uses x or what is between.
std::optional<Activation> FindActivation(ir::Value x, const Users& users);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_ACTIVATIONS_H_
