#include "compiler/passes/simplify.h"

#include <utility>

#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

// A rewrite may make room for one further up, which the next round finds. Each rule shrinks something, so this
// ends by itself; the bound guards against a pair of rules that undo each other.
constexpr int kMaxRounds = 8;

const rewrite::RuleSet& AllRules() {
  static const rewrite::RuleSet* const rules = [] {
    auto* all = new rewrite::RuleSet;
    for (rewrite::RuleSet family : {ArithmeticRules(), LogicRules(), CastRules(), ViewRules(), ReductionRules()}) {
      for (rewrite::RuleTable& table : family) all->push_back(std::move(table));
    }
    return all;
  }();
  return *rules;
}

}  // namespace

absl::StatusOr<ir::Graph> Simplify(const ir::Graph& graph) {
  std::map<std::string, int> hits;
  ASSIGN_OR_RETURN(ir::Graph simpler, rewrite::ApplyRules(graph, AllRules(), &hits));
  for (int round = 1; round < kMaxRounds && !hits.empty(); ++round) {
    hits.clear();
    ASSIGN_OR_RETURN(simpler, rewrite::ApplyRules(simpler, AllRules(), &hits));
  }
  return simpler;
}

}  // namespace preheat::passes
