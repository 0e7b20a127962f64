#ifndef PREHEAT_COMPILER_CAPTURE_LIMITS_H_
#define PREHEAT_COMPILER_CAPTURE_LIMITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/ir/expr.h"

namespace preheat::capture {

// What a program from outside may hold. Everything that an importer reads is held to these before it is
// used, so that no later layer meets arithmetic that overflows or a structure that exhausts memory.
inline constexpr int64_t kMaxMagnitude = int64_t{1} << 48;  // of a size, a stride, a product of sizes
inline constexpr size_t kMaxProgramBytes = size_t{64} << 20;
inline constexpr size_t kMaxJsonMemory = size_t{256} << 20;  // once parsed: some 50,000 operators
inline constexpr int kMaxJsonDepth = 96;
inline constexpr size_t kMaxRank = 64;
inline constexpr size_t kMaxValues = size_t{1} << 22;
inline constexpr size_t kMaxTerms = 64;   // of one expression
inline constexpr int kMaxBlockDepth = 6;  // of control flow in control flow

// An upper bound of the sum of the coefficients' absolute values, those inside functions too; saturates.
int64_t Magnitude(const ir::Expr& e);

// Expressions that stay small: OUT_OF_RANGE (kind "size_overflow") otherwise.
absl::Status CheckMagnitude(const ir::Expr& e);

// Sizes of a tensor: not negative where constant (kind "negative_size"), each and their product within
// kMaxMagnitude ("size_overflow"), at most kMaxRank of them ("malformed_program").
absl::Status CheckShape(absl::Span<const ir::Expr> shape);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_LIMITS_H_
