#include "compiler/capture/aten_program.h"

namespace preheat::capture {

const Argument* AtenNode::Find(const std::string& name) const {
  for (const NamedArgument& arg : args) {
    if (arg.name == name) return &arg.value;
  }
  return nullptr;
}

}  // namespace preheat::capture
