#ifndef PREHEAT_COMPILER_IR_INFER_LIBRARY_H_
#define PREHEAT_COMPILER_IR_INFER_LIBRARY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/op_attrs.h"

namespace preheat::ir {

// Type rules of library calls, a part of infer.cc.
absl::StatusOr<std::vector<TensorType>> InferMatMul(OpAttrs& a, absl::Span<const Value> operands);
absl::StatusOr<std::vector<TensorType>> InferConv(OpAttrs& a, absl::Span<const Value> operands);

// Holds the declared type of conv_grad_input, conv_grad_weight or fused against what its operands allow.
absl::Status CheckLibraryDeclared(OpAttrs& a, absl::Span<const Value> operands,
                                  const std::vector<TensorType>& declared);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_INFER_LIBRARY_H_
