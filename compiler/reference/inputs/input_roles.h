#ifndef PREHEAT_COMPILER_REFERENCE_INPUTS_INPUT_ROLES_H_
#define PREHEAT_COMPILER_REFERENCE_INPUTS_INPUT_ROLES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/capture/aten_program.h"

namespace preheat::reference {

// What the operators of a program expect of an input's elements.
struct InputRole {
  bool variance = false;         // it reaches a batch norm's running_var
  std::optional<int64_t> bound;  // an index: elements must be less
};

// One role for each input. Followed through operators that only move or convert elements (views, copies, slices,
// casts, concatenations) and through the addition of a constant.
// `symbol` gives the value of a symbol: bounds are sizes.
std::vector<InputRole> FindInputRoles(const capture::AtenProgram& program,
                                      const std::function<int64_t(const std::string&)>& symbol);

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_INPUTS_INPUT_ROLES_H_
