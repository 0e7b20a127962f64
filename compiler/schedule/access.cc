#include "compiler/schedule/access.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace preheat::schedule {

using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

Expr Flatten(absl::Span<const Expr> index, absl::Span<const Expr> shape) {
  Expr position;
  for (size_t i = 0; i < index.size(); ++i) position = position * shape[i] + index[i];
  return position;
}

Index Unflatten(const Expr& position, absl::Span<const Expr> shape, const ir::Ranges& ranges) {
  Index index(shape.size());
  Expr stride(1);
  size_t first = 0;  // the first dimension that is not 1: nothing is above it
  while (first < shape.size() && shape[first] == Expr(1)) ++first;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == Expr(1)) continue;
    Expr at = Expr::FloorDiv(position, stride);
    index[i] = ranges.Simplify(i == first ? at : Expr::Mod(at, shape[i]));
    stride = stride * shape[i];
  }
  return index;
}

Index ThroughView(const Node& node, const Index& index, const ir::Ranges& ranges) {
  const std::vector<Expr>& from = node.operand(0).shape();
  Index out(from.size());
  switch (node.op()) {
    case Op::kReshape: return Unflatten(ranges.Simplify(Flatten(index, node.results()[0].shape)), from, ranges);
    case Op::kPermute: {
      const std::vector<int64_t>& dims = node.Ints("dims");
      for (size_t i = 0; i < dims.size(); ++i) out[dims[i]] = index[i];
      return out;
    }
    case Op::kBroadcast:
      for (size_t i = 0; i < from.size(); ++i) out[i] = from[i] == Expr(1) ? Expr(0) : index[i];
      return out;
    case Op::kSlice: {
      const std::vector<Expr>& starts = node.Exprs("starts");
      const std::vector<int64_t>& steps = node.Ints("steps");
      for (size_t i = 0; i < from.size(); ++i) out[i] = starts[i] + index[i] * Expr(steps[i]);
      return out;
    }
    case Op::kPad: {
      const std::vector<Expr>& low = node.Exprs("low");
      for (size_t i = 0; i < from.size(); ++i) out[i] = index[i] - low[i];
      return out;
    }
    case Op::kFlip: {
      out = index;
      for (int64_t d : node.Ints("dims")) out[d] = from[d] - 1 - index[d];
      return out;
    }
    case Op::kWindow: {
      int64_t dim = node.Int("dim");
      for (size_t i = 0; i < from.size(); ++i) out[i] = index[i];
      out[dim] = index[dim] * Expr(node.Int("step")) + index.back() * Expr(node.Int("dilation"));
      return out;
    }
    default: return index;
  }
}

std::vector<Expr> PadCondition(const Node& pad, const Index& operand_index, const ir::Ranges& ranges) {
  std::vector<Expr> conditions;
  const std::vector<Expr>& shape = pad.operand(0).shape();
  for (size_t i = 0; i < operand_index.size(); ++i) {
    Expr above = operand_index[i];
    Expr below = shape[i] - 1 - operand_index[i];
    if (!ranges.NonNegative(above)) conditions.push_back(above);
    if (!ranges.NonNegative(below)) conditions.push_back(below);
  }
  return conditions;
}

Value BaseOf(Value value) {
  while (ir::IsView(value.node->op()) && value.node->op() != Op::kConcat && value.node->op() != Op::kPad) {
    value = value.node->operand(0);
  }
  return value;
}

std::optional<std::pair<Expr, Expr>> LinearIn(const Expr& e, const std::string& symbol) {
  Expr coefficient, rest;
  for (const auto& [monomial, factor] : e.terms()) {
    int powers = 0;
    Expr product(factor);
    for (const Expr::Atom& atom : monomial) {
      if (atom.symbol == symbol) {
        ++powers;
      } else {
        for (const Expr& arg : atom.args) {
          if (arg.Symbols().count(symbol)) return std::nullopt;
        }
        product = product * Expr::FromAtom(atom);
      }
    }
    if (powers > 1) return std::nullopt;
    (powers ? coefficient : rest) = (powers ? coefficient : rest) + product;
  }
  return std::pair{coefficient, rest};
}

std::optional<AffineView> PeelViews(Value value, const std::function<std::vector<Expr>(Value)>& strides_of,
                                    const ir::Ranges& sizes) {
  ir::Ranges ranges = sizes;
  const std::vector<Expr>& shape = value.shape();
  Index index;
  std::vector<std::string> names;
  for (size_t i = 0; i < shape.size(); ++i) {
    names.push_back(absl::StrCat("v", i));
    ranges.Set(names.back(), 0, shape[i] - 1);
    index.push_back(shape[i] == Expr(1) ? Expr(0) : Expr::Symbol(names.back()));
  }
  Value base = value;
  while (ir::IsView(base.node->op())) {
    Op op = base.node->op();
    if (op == Op::kConcat || op == Op::kPad || op == Op::kFlip) break;  // a value of its own
    index = ThroughView(*base.node, index, ranges);
    base = base.node->operand(0);
  }
  std::vector<Expr> base_strides = strides_of(base);
  Expr position;
  for (size_t i = 0; i < index.size(); ++i) position = position + index[i] * base_strides[i];
  position = ranges.Simplify(position);
  AffineView view{base, {}, Expr(0)};
  for (const std::string& name : names) {
    auto split = LinearIn(position, name);
    if (!split) return std::nullopt;
    view.strides.push_back(split->first);
    position = split->second;
  }
  // What is left, and every stride, may hold sizes only.
  std::vector<Expr> all = view.strides;
  all.push_back(position);
  for (const Expr& e : all) {
    for (const std::string& s : e.Symbols()) {
      if (std::find(names.begin(), names.end(), s) != names.end()) return std::nullopt;
    }
  }
  view.offset = position;
  return view;
}

}  // namespace preheat::schedule
