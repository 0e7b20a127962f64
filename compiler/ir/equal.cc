#include "compiler/ir/equal.h"

#include <cstring>

namespace preheat::ir {
namespace {

bool Equal(const AttrValue& a, const AttrValue& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  return x && y ? std::memcmp(x, y, sizeof(double)) == 0 : a == b;
}

bool SamePlace(const Value& a, const Value& b) { return a.node->id() == b.node->id() && a.index == b.index; }

bool Equal(const Node& a, const Node& b) {
  if (a.op() != b.op() || a.operands().size() != b.operands().size() || a.results() != b.results()) return false;
  for (size_t i = 0; i < a.operands().size(); ++i) {
    if (!SamePlace(a.operand(i), b.operand(i))) return false;
  }
  return ir::Equal(a.attrs(), b.attrs());
}

bool Equal(const GraphOutput& a, const GraphOutput& b) {
  return SamePlace(a.value, b.value) && a.strides == b.strides && a.mutates == b.mutates &&
         a.aliases_input == b.aliases_input;
}

}  // namespace

bool Equal(const Attrs& a, const Attrs& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    if (i->first != j->first || !Equal(i->second, j->second)) return false;
  }
  return true;
}

bool Equal(const Graph& a, const Graph& b) {
  if (a.symbols() != b.symbols() || a.inputs() != b.inputs() || a.nodes().size() != b.nodes().size() ||
      a.outputs().size() != b.outputs().size()) {
    return false;
  }
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    if (!Equal(a.nodes()[i], b.nodes()[i])) return false;
  }
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    if (!Equal(a.outputs()[i], b.outputs()[i])) return false;
  }
  return true;
}

}  // namespace preheat::ir
