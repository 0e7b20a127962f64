#ifndef PREHEAT_COMPILER_REWRITE_RULES_H_
#define PREHEAT_COMPILER_REWRITE_RULES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "compiler/rewrite/pattern.h"

namespace preheat::rewrite {

using Condition = std::function<bool(const Match&)>;

// What stands in the root's place: built from captures, or a capture itself. A null value: the rule does not
// apply after all (a builder that has failed is an error of the rule).
class Replacement {
 public:
  Replacement(Capture capture) : make_([capture](const Match& m, ir::Builder&) { return capture(m); }) {}  // NOLINT
  template <typename F, typename = std::enable_if_t<std::is_invocable_r_v<ir::Value, F, const Match&, ir::Builder&>>>
  Replacement(F make) : make_(std::move(make)) {}  // NOLINT
  ir::Value operator()(const Match& match, ir::Builder& b) const { return make_(match, b); }

 private:
  std::function<ir::Value(const Match&, ir::Builder&)> make_;
};

// One line of a table. A replacement must be no slower than what it replaces, have the same type and, for
// every input, the same value: NaN, infinities and the sign of zero included.
struct Rule {
  absl::string_view name;  // the equation, for people: "x + 0 = x"
  Pattern pattern;
  Replacement replace;
  Condition when = [](const Match&) { return true; };
};

// Rules for one operator at the root, tried in order.
struct RuleTable {
  ir::Op root;
  std::vector<Rule> rules;
};
using RuleSet = std::vector<RuleTable>;

// Rewrites each live node in order by the first rule that fits, again while one does (at most 16 times a
// node). Operands are rewritten before their users. What is replaced and no longer needed goes. `hits` counts
// by rule name. INTERNAL when a replacement changes the type or a builder fails: a bug of that rule.
absl::StatusOr<ir::Graph> ApplyRules(const ir::Graph& graph, const RuleSet& rules, std::map<std::string, int>* hits);

}  // namespace preheat::rewrite

#endif  // PREHEAT_COMPILER_REWRITE_RULES_H_
