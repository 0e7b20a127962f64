#ifndef PREHEAT_COMPILER_PASSES_FORM_ATTENTION_H_
#define PREHEAT_COMPILER_PASSES_FORM_ATTENTION_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// Makes one library call of two products around a softmax (Op::kFused, base "attention"), so that the matrix of scores
// is never stored:
//
//   softmax(q x k * scale + mask, columns from `causal` on hidden) x v
//
// in f32, as far as each value between has no other use but log(sum(exp(scores))), which becomes a second result. The
// scale may be a factor or a divisor; masks are added, or choose minus infinity; the softmax is the plain one, or that
// which gives zeros for rows without anything to see.
// Reshapes of the batch dimensions may stand before and behind the softmax. Products of few scores stay as they are:
// there a matrix library and a fused softmax are faster.
//
// REQUIRES no dead code: a dead user keeps a call from forming.
absl::StatusOr<ir::Graph> FormAttention(const ir::Graph& graph);

// The same for the gradients of q, k and v, all three, computed from the log sums that the forward call kept (base
// "attention_grad"): weights exp(scores - log sums), zero where a score is minus infinity, and five products.
absl::StatusOr<ir::Graph> FormAttentionGrad(const ir::Graph& graph);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_FORM_ATTENTION_H_
