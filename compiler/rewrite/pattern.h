#ifndef PREHEAT_COMPILER_REWRITE_PATTERN_H_
#define PREHEAT_COMPILER_REWRITE_PATTERN_H_

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace preheat::rewrite {

// What a pattern found: the values its captures stand for, and every node it went through (the root first).
struct Match {
  ir::Value root;
  std::array<ir::Value, 4> captured;
  std::vector<const ir::Node*> nodes;
};

// Does this value have that form? Extends the match; on failure the match is unspecified.
using Pattern = std::function<bool(ir::Value, Match&)>;

// Stands for any value; the same capture twice in one pattern must be the same value.
struct Capture {
  int index;
  bool operator()(ir::Value value, Match& match) const;
  ir::Value operator()(const Match& match) const { return match.captured[index]; }
};
inline constexpr Capture x{0}, y{1}, z{2}, c{3};

// An operator whose operands match, in that order.
Pattern Is(ir::Op op, std::vector<Pattern> operands);
// In either order, of two.
Pattern EitherWay(ir::Op op, Pattern a, Pattern b);
// Any of them; the first that matches counts, even if what stands further right then fails.
Pattern OneOf(std::vector<Pattern> patterns);
// Where `pattern` matches, captured as well.
Pattern As(Capture capture, Pattern pattern);

// A fill of exactly that value (for floats: 0.0 is not -0.0). An integer's value as a double.
Pattern FillOf(double value);
// A fill whose value is so close to `value` as float rounding leaves it (relative 5e-3 for 16-bit floats, else 1e-6).
Pattern FillNear(double value);
// Any fill.
Pattern AnyFill(Capture capture);

// The value of a fill as a double; nothing for other values.
std::optional<double> FillValue(ir::Value value);

// True, and `match` describes it, when `value` has the form.
bool Matches(const Pattern& pattern, ir::Value value, Match& match);

}  // namespace preheat::rewrite

#endif  // PREHEAT_COMPILER_REWRITE_PATTERN_H_
