#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_ATTENTION_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_ATTENTION_H_

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// softmax(q k^T * scale + mask) v and what its gradient needs, all in the compute type.
struct Attention {
  Value q, k, v;  // k and v with as many heads as q
  Value scale;    // 0-d
  Value scores;   // after scaling and masking
  Value weights;  // softmax of the scores
};

// Reads query, key, value, attn_mask, is_causal, scale, enable_gqa. 16-bit floats are computed in f32, as
// eager's fused kernel does. Refuses dropout.
Attention ReadAttention(OpContext& c);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_ATTENTION_H_
