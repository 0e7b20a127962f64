#ifndef PREHEAT_COMPILER_PASSES_REDUCE_IN_STEPS_H_
#define PREHEAT_COMPILER_PASSES_REDUCE_IN_STEPS_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/builder.h"

namespace preheat::passes {

// Dimension `dim` as two: `parts`, and each one's elements behind. REQUIRES: a constant size that `parts` divides.
ir::Value SplitDim(ir::Builder& b, ir::Value x, int64_t dim, int64_t parts);

// Reduces dimensions `first` of x, then `second`, of x too; each is sorted, an empty one is no step.
ir::Value ReduceInSteps(ir::Builder& b, ir::Op op, ir::Value x, const std::vector<int64_t>& first,
                        std::vector<int64_t> second);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_REDUCE_IN_STEPS_H_
