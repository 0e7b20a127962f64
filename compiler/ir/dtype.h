#ifndef PREHEAT_COMPILER_IR_DTYPE_H_
#define PREHEAT_COMPILER_IR_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace preheat::ir {

// Element types. The numbers stand in plans, keys and wire messages: never renumber.
enum class DType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
  kC64 = 10,   // complex, two f32; travels, but has no native operators
  kC128 = 11,  // complex, two f64; likewise
};

// "f32", "i64", "bool", ... as in the text of the IR and on the command line.
absl::string_view DTypeName(DType dtype);
std::optional<DType> ParseDType(absl::string_view name);

// Bytes of one element in memory (bool: 1).
int64_t DTypeSize(DType dtype);

bool IsFloat(DType dtype);    // f16, bf16, f32, f64
bool IsInteger(DType dtype);  // u8 to i64; not bool
bool IsComplex(DType dtype);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_DTYPE_H_
