#include "compiler/ir/equal.h"

#include <cstring>
#include <functional>

namespace preheat::ir {
namespace {

bool Equal(const AttrValue& a, const AttrValue& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  return x && y ? std::memcmp(x, y, sizeof(double)) == 0 : a == b;
}

bool SamePlace(const Value& a, const Value& b) { return a.node->id() == b.node->id() && a.index == b.index; }

bool Equal(const GraphOutput& a, const GraphOutput& b) {
  return SamePlace(a.value, b.value) && a.strides == b.strides && a.mutates == b.mutates &&
         a.aliases_input == b.aliases_input;
}

// What is left out (expressions with symbols) only makes more hashes the same.
struct Hasher {
  size_t state = 0;

  void Add(uint64_t value) {
    state = (state ^ (value + 0x9e3779b97f4a7c15 + (state << 6) + (state >> 2))) * 0xff51afd7ed558ccd;
  }
  void operator()(int64_t v) { Add(static_cast<uint64_t>(v)); }
  void operator()(double v) {
    uint64_t bits;
    std::memcpy(&bits, &v, sizeof(bits));
    Add(bits);
  }
  void operator()(const std::string& v) { Add(std::hash<std::string>()(v)); }
  void operator()(DType v) { Add(static_cast<uint64_t>(v)); }
  void operator()(const Expr& v) { Add(static_cast<uint64_t>(v.constant().value_or(-1))); }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    Add(list.size());
    for (const T& item : list) (*this)(item);
  }
};

}  // namespace

bool EqualNodes(const Node& a, const Node& b) {
  if (a.op() != b.op() || a.operands().size() != b.operands().size() || a.results() != b.results()) return false;
  for (size_t i = 0; i < a.operands().size(); ++i) {
    if (!SamePlace(a.operand(i), b.operand(i))) return false;
  }
  return Equal(a.attrs(), b.attrs());
}

size_t HashOf(const Node& node) {
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(node.op()));
  for (const Value& operand : node.operands()) {
    hasher.Add(static_cast<uint64_t>(operand.node->id()));
    hasher.Add(static_cast<uint64_t>(operand.index));
  }
  for (const TensorType& type : node.results()) hasher(type.dtype), hasher(type.shape);
  for (const auto& [name, value] : node.attrs()) std::visit([&](const auto& v) { hasher(v); }, value);
  return hasher.state;
}

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
    if (!EqualNodes(a.nodes()[i], b.nodes()[i])) return false;
  }
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    if (!Equal(a.outputs()[i], b.outputs()[i])) return false;
  }
  return true;
}

}  // namespace preheat::ir
