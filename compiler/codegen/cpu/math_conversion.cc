#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu/math_text.h"

namespace preheat {
namespace {

constexpr char kHalves[] = R"(
FN float ph_bf16_to_f32(unsigned short x) { return __builtin_bit_cast(float, (unsigned)x << 16); }

// To nearest, ties to even: half a unit less one, and the last bit kept, carry as they should. NaN stays quiet.
FN unsigned short ph_f32_to_bf16(float x) {
  unsigned bits = __builtin_bit_cast(unsigned, x);
  unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (unsigned short)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u | (bits >> 16 & 0x8000u) : rounded);
}

// Normal: the exponent's bias grows by 112. Infinity and NaN: by 112 more. Subnormal: the mantissa is a whole number of 2^-24.
FN float ph_f16_to_f32(unsigned short x) {
  unsigned magnitude = (unsigned)x & 0x7fffu;
  unsigned bits = (magnitude << 13) + 0x38000000u;
  bits = magnitude >= 0x7c00u ? bits + 0x38000000u : bits;
  unsigned tiny = __builtin_bit_cast(unsigned, (float)(int)magnitude * 0x1p-24f);
  bits = magnitude < 0x400u ? tiny : bits;
  return __builtin_bit_cast(float, bits | ((unsigned)x & 0x8000u) << 16);
}

// Below 2^-14 the sum with 1/2 rounds to multiples of 2^-24, the last bit of 1/2. From 65520 on the carry would reach infinity
// or pass it.
FN unsigned short ph_f32_to_f16(float x) {
  unsigned bits = __builtin_bit_cast(unsigned, x);
  unsigned magnitude = bits & 0x7fffffffu;
  unsigned tiny = __builtin_bit_cast(unsigned, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  unsigned r = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  r = magnitude < 0x38800000u ? tiny : r;
  r = magnitude >= 0x477ff000u ? 0x7c00u : r;
  r = magnitude > 0x7f800000u ? 0x7e00u : r;
  return (unsigned short)(r | (bits >> 16 & 0x8000u));
}

// To float, rounding to odd: toward zero, with the last bit set where anything was cut off. Rounding that again to fewer
// bits gives what rounding once gives.
FN float phx_to_odd(double x) {
  float f = (float)x;
  unsigned bits = __builtin_bit_cast(unsigned, f);
  bits = __builtin_fabs((double)f) > __builtin_fabs(x) ? bits - 1u : bits;
  bits = (double)f != x ? bits | 1u : bits;
  return x != x ? f : __builtin_bit_cast(float, bits);
}
FN unsigned short ph_f64_to_bf16(double x) { return ph_f32_to_bf16(phx_to_odd(x)); }
FN unsigned short ph_f64_to_f16(double x) { return ph_f32_to_f16(phx_to_odd(x)); }
)";

// Eager compiles C's casts, undefined out of range, to the instruction that gives the least integer there. i8 and i16
// are the low bits of the i32, u8 those of the i64: x without its multiples of 256, which is what |x| >= 2^61 consists
// of.
constexpr char kToInteger[] = R"(
FN int ph_$D_to_i32($T x) {
  bool fits = (x < ($T)2147483648.0) & (x > ($T)$LOW32);
  return fits ? (int)x : (int)0x80000000;
}
FN long long ph_$D_to_i64($T x) {
  bool fits = (x < ($T)9223372036854775808.0) & (x >= ($T)-9223372036854775808.0);
  return fits ? (long long)x : (long long)0x8000000000000000;
}
FN signed char ph_$D_to_i8($T x) { return (signed char)ph_$D_to_i32(x); }
FN short ph_$D_to_i16($T x) { return (short)ph_$D_to_i32(x); }
FN unsigned char ph_$D_to_u8($T x) {
  $T whole = __builtin_trunc$F(x);
  whole = whole - __builtin_floor$F(whole * ($T)0.00390625) * ($T)256.0;
  bool fits = (x < ($T)9223372036854775808.0) & (x > ($T)-9223372036854775808.0);
  return (unsigned char)(int)(fits ? whole : ($T)0.0);
}
)";

}  // namespace

std::string ConversionMathText() {
  // A float above -2^31 - 1 is one at or above -2^31.
  return absl::StrCat(
      kHalves,
      absl::StrReplaceAll(kToInteger, {{"$D", "f32"}, {"$T", "float"}, {"$F", "f"}, {"$LOW32", "-2147483904.0"}}),
      absl::StrReplaceAll(kToInteger, {{"$D", "f64"}, {"$T", "double"}, {"$F", ""}, {"$LOW32", "-2147483649.0"}}));
}

}  // namespace preheat
