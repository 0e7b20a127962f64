#ifndef PREHEAT_COMPILER_IR_INFER_H_
#define PREHEAT_COMPILER_IR_INFER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// Checks operands and attributes of one operator and gives its result types by the rule that
// ops.def names. INVALID_ARGUMENT says which operand or attribute is wrong and what was expected.
//
// Sizes are compared as expressions: [d0] and [d0] agree, [d0] and [d1] do not, even if both will be 8.
absl::StatusOr<std::vector<TensorType>> InferTypes(Op op, absl::Span<const Value> operands, const Attrs& attrs,
                                                   const std::vector<TensorType>& declared);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_INFER_H_
