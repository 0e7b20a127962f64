#ifndef PREHEAT_COMPILER_IR_SCALAR_H_
#define PREHEAT_COMPILER_IR_SCALAR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/ir/dtype.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// The value rounded (to nearest, ties to even) to what a float dtype can hold; beyond its range infinite.
double RoundTo(DType dtype, double value);

// The value modulo 2^width, as an integer dtype holds it; bool: 0 or 1.
int64_t WrapTo(DType dtype, int64_t value);

// 16-bit floats by their bits. Encoding rounds as RoundTo does; every NaN becomes the quiet one.
uint16_t EncodeF16(double value);
double DecodeF16(uint16_t bits);
uint16_t EncodeBF16(double value);
double DecodeBF16(uint16_t bits);

// The scalar as one element of that dtype: a double, rounded, for floats; a wrapped integer for integers
// and bool. INVALID_ARGUMENT for complex dtypes and for fractions, NaN or huge values where an integer is due.
absl::StatusOr<Scalar> ScalarAs(Scalar scalar, DType dtype);

// The scalar's value as a double (integers beyond 2^53 round).
double ScalarToDouble(Scalar scalar);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_SCALAR_H_
