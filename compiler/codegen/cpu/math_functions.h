#ifndef PREHEAT_COMPILER_CODEGEN_CPU_MATH_FUNCTIONS_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_MATH_FUNCTIONS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat {

// The mathematics of emitted CPU kernels: C++ source of scalar functions that need no header and no library.
//
// A function is named ph_<op>_<dtype>, op as in compiler/ir/ops.def and dtype the type of its operands and result:
//   f32, f64             exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
//                        atanh erf erfc pow atan2 fmod mod floor_div copysign nextafter rsqrt reciprocal sign ceil
//                        floor trunc round sqrt abs max min
//   i8 i16 i32 i64 u8    div floor_div mod fmod pow abs sign shl shr max min
// Conversions are ph_<from>_to_<to>: bf16 and f16 (as unsigned short) to f32; f32 and f64 to bf16 and f16; f32 and f64
// to i8, i16, i32, i64 and u8. There are no other conversions: those that C has are those of eager.
//
// Each is `static inline`, always inlined, without branches, so that g++ vectorizes a `#pragma omp simd` loop that
// calls it. Exceptions, which are right but run element by element: fmod, mod and floor_div of f64 (a loop), pow of
// integers (a loop), division of i64 (no vector instruction), and below x86-64-v4 casts of floats to i64 and shr of i8
// and i16.
//
// Meant for g++ -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math (never -ffast-math) on x86-64-v2 or later, in
// the default rounding mode, with denormals on; and -fno-tree-pre, or else g++ leaves some loops that call several of
// them scalar. Results are within 2 ulp of the mathematical function for all inputs, denormal results included; zeros
// have the sign, and infinities and NaN are, as in libm. f32 is within 1.6 ulp; sqrt, reciprocal, roundings, remainders
// and the like are exact or correctly rounded. math_functions_test.cc prints what is measured.
//
// Integers wrap; x / 0, x % 0 and the like are 0 (the caller reports the error); the least integer / -1 wraps.
// Float to integer casts out of range give what eager gives on x86: i32 and i64 their least value, i8 and i16 the low
// bits of the i32, u8 those of the i64.

// The definitions of these functions and of whatever they need, each once, in an order that compiles.
// INVALID_ARGUMENT if there is no function of such a name.
absl::StatusOr<std::string> MathSource(const std::set<std::string>& names);

// Whether MathSource knows the name.
bool HasMath(absl::string_view name);

// All names for callers, sorted: for tests and documentation.
std::vector<std::string> MathNames();

}  // namespace preheat

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_MATH_FUNCTIONS_H_
