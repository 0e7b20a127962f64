#include "compiler/rewrite/rules.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/print.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::rewrite {
namespace {

using ir::Value;

constexpr int kMaxRewrites = 16;

// What the first fitting rule makes of `value`; null when none fits.
absl::StatusOr<Value> Once(const std::vector<Rule>& rules, Value value, ir::Builder& b,
                           std::map<std::string, int>* hits) {
  Match match;
  for (const Rule& rule : rules) {
    if (!Matches(rule.pattern, value, match) || !rule.when(match)) continue;
    Value with = rule.replace(match, b);
    if (!b.status().ok()) return absl::InternalError(absl::StrCat("rule \"", rule.name, "\": ", b.status().message()));
    if (!with || with == value) continue;
    if (with.type() != value.type()) {
      return absl::InternalError(
          absl::StrCat("rule \"", rule.name, "\" makes ", with.type().ToString(), " of ", ir::Print(*value.node)));
    }
    if (hits) ++(*hits)[std::string(rule.name)];
    return with;
  }
  return Value{};
}

}  // namespace

absl::StatusOr<ir::Graph> ApplyRules(const ir::Graph& graph, const RuleSet& rules, std::map<std::string, int>* hits) {
  std::vector<const RuleTable*> by_op(ir::NumOps(), nullptr);
  for (const RuleTable& table : rules) by_op[static_cast<int>(table.root)] = &table;
  std::vector<bool> live = LiveNodes(graph);
  Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    RETURN_IF_ERROR(r.Copy(node));
    if (node.results().size() != 1) continue;
    Value value = r.Map(node.result());
    for (int i = 0; i < kMaxRewrites; ++i) {
      const RuleTable* table = by_op[static_cast<int>(value.node->op())];
      if (table == nullptr || value.index != 0) break;
      ASSIGN_OR_RETURN(Value with, Once(table->rules, value, r.builder(), hits));
      if (!with) break;
      value = with;
    }
    r.Replace(node.result(), value);
  }
  return r.Finish();
}

}  // namespace preheat::rewrite
