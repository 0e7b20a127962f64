#include "compiler/rewrite/pattern.h"

#include <cmath>
#include <utility>

#include "compiler/ir/scalar.h"

namespace preheat::rewrite {

using ir::Value;

bool Capture::operator()(Value value, Match& match) const {
  Value& slot = match.captured[index];
  if (!slot) slot = value;
  return slot == value;
}

Pattern Is(ir::Op op, std::vector<Pattern> operands) {
  return [op, operands = std::move(operands)](Value value, Match& match) {
    if (value.node->op() != op || value.node->operands().size() != operands.size()) return false;
    match.nodes.push_back(value.node);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i](value.node->operand(static_cast<int>(i)), match)) return false;
    }
    return true;
  };
}

Pattern OneOf(std::vector<Pattern> patterns) {
  return [patterns = std::move(patterns)](Value value, Match& match) {
    for (const Pattern& pattern : patterns) {
      Match attempt = match;
      if (!pattern(value, attempt)) continue;
      match = std::move(attempt);
      return true;
    }
    return false;
  };
}

Pattern EitherWay(ir::Op op, Pattern a, Pattern b) { return OneOf({Is(op, {a, b}), Is(op, {b, a})}); }

Pattern As(Capture capture, Pattern pattern) {
  return [capture, pattern = std::move(pattern)](Value value, Match& match) {
    return capture(value, match) && pattern(value, match);
  };
}

std::optional<double> FillValue(Value value) {
  if (value.node->op() != ir::Op::kFill) return std::nullopt;
  return ir::ScalarToDouble(value.node->ScalarAttr("value"));
}

Pattern FillOf(double wanted) {
  return [wanted](Value value, Match&) {
    std::optional<double> found = FillValue(value);
    if (!found || *found != wanted) return false;
    return std::signbit(*found) == std::signbit(wanted) || !ir::IsFloat(value.dtype());
  };
}

Pattern FillNear(double wanted) {
  return [wanted](Value value, Match&) {
    std::optional<double> found = FillValue(value);
    double tolerance = ir::DTypeSize(value.dtype()) == 2 ? 5e-3 : 1e-6;
    return found && ir::IsFloat(value.dtype()) && std::fabs(*found - wanted) <= tolerance * std::fabs(wanted);
  };
}

Pattern AnyFill(Capture capture) {
  return [capture](Value value, Match& match) { return value.node->op() == ir::Op::kFill && capture(value, match); };
}

bool Matches(const Pattern& pattern, Value value, Match& match) {
  match = Match{};
  match.root = value;
  return pattern(value, match);
}

}  // namespace preheat::rewrite
