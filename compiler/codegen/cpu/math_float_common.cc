#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu/math_text.h"

namespace preheat {
namespace {

// $D dtype, $T its C type, $U the unsigned integer of its width, $F the suffix of GCC's builtins, and of literals.
// SSE4.1 rounds in one instruction, so x86-64-v2 suffices for every builtin here.
constexpr char kTemplate[] = R"(
FN $T ph_abs_$D($T x) { return __builtin_fabs$F(x); }
FN $T ph_sqrt_$D($T x) { return __builtin_sqrt$F(x); }
FN $T ph_floor_$D($T x) { return __builtin_floor$F(x); }
FN $T ph_ceil_$D($T x) { return __builtin_ceil$F(x); }
FN $T ph_trunc_$D($T x) { return __builtin_trunc$F(x); }
FN $T ph_round_$D($T x) { return __builtin_rint$F(x); }
FN $T ph_reciprocal_$D($T x) { return ($T)1.0 / x; }
FN $T ph_rsqrt_$D($T x) { return ($T)1.0 / __builtin_sqrt$F(x); }
FN $T ph_sign_$D($T x) { return x > ($T)0.0 ? ($T)1.0 : x < ($T)0.0 ? ($T)-1.0 : ($T)0.0; }
FN $T ph_copysign_$D($T x, $T y) { return __builtin_copysign$F(x, y); }

// The comparison is false when y is NaN, which then is the result.
FN $T ph_max_$D($T x, $T y) { return (x > y) | (x != x) ? x : y; }
FN $T ph_min_$D($T x, $T y) { return (x < y) | (x != x) ? x : y; }

// Neighbours in value are neighbours in bits, apart from zero.
FN $T ph_nextafter_$D($T x, $T y) {
  $U bits = __builtin_bit_cast($U, x);
  $U next = (x < y) == (x > ($T)0.0) ? bits + 1 : bits - 1;
  $T from_zero = __builtin_copysign$F(__builtin_bit_cast($T, ($U)1), y);
  $T r = x == ($T)0.0 ? from_zero : __builtin_bit_cast($T, next);
  r = x == y ? y : r;
  return (x != x) | (y != y) ? x + y : r;
}

// Whether x is not zero and has another sign than y. In floating numbers: g++ vectorizes no choice between truth values.
FN bool phx_differ_$D($T x, $T y) {
  $T sign = x > ($T)0.0 ? ($T)1.0 : x < ($T)0.0 ? ($T)-1.0 : ($T)0.0;
  return sign * __builtin_copysign$F(($T)1.0, y) < ($T)0.0;
}

FN $T ph_mod_$D($T x, $T y) {
  $T m = ph_fmod_$D(x, y);
  return phx_differ_$D(m, y) ? m + y : m;
}

// Eager's order of operations: what the remainder leaves is divided, so that the quotient is all but whole.
FN $T ph_floor_div_$D($T x, $T y) {
  $T m = ph_fmod_$D(x, y);
  $T q = (x - m) / y;
  q = phx_differ_$D(m, y) ? q - ($T)1.0 : q;
  $T f = __builtin_floor$F(q);
  f = q - f > ($T)0.5 ? f + ($T)1.0 : f;
  f = q == ($T)0.0 ? __builtin_copysign$F(($T)0.0, x / y) : f;
  return y == ($T)0.0 ? x / y : f;
}
)";

std::string For(const char* dtype, const char* type, const char* bits, const char* suffix) {
  return absl::StrReplaceAll(kTemplate, {{"$D", dtype}, {"$T", type}, {"$U", bits}, {"$F", suffix}});
}

}  // namespace

std::string FloatCommonMathText() {
  return absl::StrCat(For("f32", "float", "unsigned", "f"), For("f64", "double", "unsigned long long", ""));
}

}  // namespace preheat
