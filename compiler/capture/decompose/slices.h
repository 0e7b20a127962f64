#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_SLICES_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_SLICES_H_

#include "compiler/ir/expr.h"

namespace preheat::decompose {

// Where a slice of a dimension of `size` begins: negative starts count from the end, known ones are clamped
// as Python does.
ir::Expr SliceStart(const ir::Expr& start, const ir::Expr& size);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_SLICES_H_
