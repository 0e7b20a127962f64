#ifndef PREHEAT_KERNELS_LIBRARY_ATTENTION_GRAD_H_
#define PREHEAT_KERNELS_LIBRARY_ATTENTION_GRAD_H_

#include <memory>

#include "kernels/library/call.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// The gradients of attention (attention.h) without a matrix of scores in memory: PREHEAT_LIB_ATTENTION_GRAD, f32.
// Operands q, k and the same MASK and CAUSAL steps, then
//   VALUES     v [b..., n, f]
//   GRADIENT   g [b..., m, f], of the result
//   OUTPUT     the result itself
//   LOG_SUMS   [b..., m, 1]: the logarithms of the rows' sums of exp(score)
// Results: the gradients of q [b..., m, e], of k [b..., n, e] and of v. With P = exp(scores - log sums), zero where a
// score is -inf, and D = rows' sums of g * output: dv = P' g, dS = P * (g v' - D), dq = dS k' scale, dk = dS' q scale
// (Dao et al., "FlashAttention", 2022, algorithm 4).
//
// One thread does one matrix of the stack. REQUIRES: CheckCall(call) is OK.
std::unique_ptr<PreparedCall> PrepareAttentionGrad(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_ATTENTION_GRAD_H_
