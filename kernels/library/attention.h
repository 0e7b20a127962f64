#ifndef PREHEAT_KERNELS_LIBRARY_ATTENTION_H_
#define PREHEAT_KERNELS_LIBRARY_ATTENTION_H_

#include <memory>

#include "kernels/library/call.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// Attention without its matrix of scores in memory: PREHEAT_LIB_ATTENTION, f32. Operands q [b..., m, e] and
// k [b..., e, n]; scores q * k * call.scale; then, as epilogues in this order,
//   MASK (any number)         an operand over the scores: added, or if bool, false makes the score -inf
//   CAUSAL (once at most)     row i sees the columns up to i
//   SOFTMAX or SAFE_SOFTMAX   along rows; of a row without anything to see, NaN or zeros
//   VALUES                    operand v [b..., n, f]; the result is weights * v
// A result for n = 0 is zero. A second result, if there is one, is [b..., m, 1]: the logarithms of the rows' sums of
// exp(score).
//
// Keys and values are walked through in blocks, with a running maximum and sum for each row (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// REQUIRES: CheckCall(call) is OK.
std::unique_ptr<PreparedCall> PrepareAttention(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_ATTENTION_H_
