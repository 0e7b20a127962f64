#ifndef PREHEAT_COMPILER_CAPTURE_MUTATING_OPS_H_
#define PREHEAT_COMPILER_CAPTURE_MUTATING_OPS_H_

#include <optional>
#include <string>

#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// Which operators write into an operand, by torch's naming, and what computes the same as a value.

// "aten.add_.Tensor" -> "aten.add.Tensor": writes its first argument. std::nullopt when `op` is not in place.
std::optional<std::string> InPlaceToValue(const std::string& op);

// "aten.add.out" -> "aten.add.Tensor": writes its argument `out`. std::nullopt for other operators.
std::optional<std::string> OutToValue(const std::string& op);

// In-place forms that change a tensor's shape, or lists of tensors; they have no value form here.
bool ChangesMetadata(const std::string& op);

// Batch norm that updates its running statistics.
bool UpdatesStatistics(const AtenNode& node);

// The arithmetic operators whose result dtype follows from all operands: in place it is cast back to the first one's.
bool Promotes(const std::string& value_op);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_MUTATING_OPS_H_
