#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_LOSSES_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_LOSSES_H_

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// The `reduction` argument's numbers in ATen.
enum class Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };
Reduction ReductionOf(OpContext& c);

// Classes chosen by a target: which elements of [n, classes, ...] count, and with what weight.
struct Targets {
  int64_t dim = 0;  // of the classes
  Value index;      // i64, the target with ignored entries set to 0, a dimension of size 1 for the classes
  Value weight;     // of each entry, in the compute type: 0 where ignored, otherwise the class's weight or 1
};
Targets ReadTargets(OpContext& c, Value logits);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_LOSSES_H_
