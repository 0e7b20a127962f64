#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_PRODUCTS_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_PRODUCTS_H_

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// torch.matmul: vectors, broadcast batches. A product with a plain matrix on the right is one flat matmul.
Value MatMulBroadcast(Builder& b, Value x, Value y);

// x [..., k] times w [n, k] transposed, plus an optional bias [n].
Value Linear(Builder& b, Value x, Value w, Value bias);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_PRODUCTS_H_
