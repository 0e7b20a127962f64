#ifndef PREHEAT_COMPILER_PASSES_ATTENTION_SCORES_H_
#define PREHEAT_COMPILER_PASSES_ATTENTION_SCORES_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/rebuild.h"

namespace preheat::passes {

using Nodes = std::set<const ir::Node*>;

// Values over the scores: added, or where bool, true shows a score, or hides it.
struct ScoreMask {
  ir::Value value;
  bool hides = false;
};

// q x k * scale and what is masked of it; values of the old graph.
struct AttentionScores {
  ir::Value q, k;  // [..., m, e], [..., e, n], perhaps with other batch dimensions than `shape`
  double scale = 1;
  std::vector<ScoreMask> masks;  // the innermost last
  bool causal = false;
  std::vector<ir::Expr> shape;
  Nodes nodes;  // that compute them
};

// How `scores` come about, where that is masks over a scaled product in f32: factors or divisors, masks that are added
// or choose minus infinity, and reshapes of the batch dimensions.
std::optional<AttentionScores> ReadScores(ir::Value scores);

// Are there rows enough to use packed keys and values more than once? Then blocks beat a matrix library at any size; a
// row or two are read faster where they lie. True where the number is not known.
bool HasMatrix(const AttentionScores& scores);

// What a value shows through reshapes and broadcasts, or through reshapes that leave the last two dimensions alone;
// these go to `nodes`.
ir::Value BelowViews(ir::Value v, Nodes& nodes);
ir::Value BelowReshapes(ir::Value v, Nodes& nodes);

// Does v reduce `of` along its last dimension? It goes to `nodes`.
bool ReducesRows(ir::Value v, ir::Op op, ir::Value of, Nodes& nodes);

// Does nobody but `nodes` and `ends` read what `nodes` compute?
bool ArePrivate(const Nodes& nodes, const Nodes& ends, const Users& users);

// v in the new graph with the scores' batch dimensions before its last two.
ir::Value Stacked(const AttentionScores& scores, ir::Value v, rewrite::Rebuild& r);

// Begins the operands and steps of a library call: q, k, the masks, causal. The caller adds the rest.
struct AttentionCall {
  std::vector<ir::Value> operands;
  ir::Attrs attrs;  // base and scale; `epilogue` is to come
  std::vector<std::string> steps;
};
AttentionCall BeginCall(const AttentionScores& scores, const char* base, rewrite::Rebuild& r);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_ATTENTION_SCORES_H_
