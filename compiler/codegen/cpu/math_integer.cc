#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu/math_text.h"

namespace preheat {
namespace {

// $D dtype, $T its C type, $U the unsigned type of its width, $W its bits, $C the type it computes in, $R the floating
// type whose quotients are exact before truncation: n-bit operands differ from a whole quotient by 2^-n of it at least.
// Conversions to $T wrap.
constexpr char kSigned[] = R"(
FN $T ph_abs_$D($T x) { return ($T)(x < 0 ? ($U)0 - ($U)x : ($U)x); }
FN $T ph_sign_$D($T x) { return ($T)((x > 0) - (x < 0)); }
FN $T ph_mod_$D($T x, $T y) {
  $T m = ph_fmod_$D(x, y);
  return (m != 0) & ((m < 0) != (y < 0)) ? ($T)(m + y) : m;
}
FN $T ph_floor_div_$D($T x, $T y) {
  $T q = ph_div_$D(x, y);
  $T m = ph_fmod_$D(x, y);
  return (m != 0) & ((m < 0) != (y < 0)) ? ($T)(q - 1) : q;
}

// As in eager: a count out of range leaves the sign.
FN $T ph_shr_$D($T x, $T y) {
  $C wide = x, count = y;
  count = (count < 0) | (count >= $W) ? $W - 1 : count;
  return ($T)(wide >> count);
}
FN $T ph_shl_$D($T x, $T y) {
  bool fits = (y >= 0) & (y < $W);
  return ($T)(fits ? ($U)x << (y & ($W - 1)) : ($U)0);
}
FN $T ph_pow_$D($T x, $T y) {
  $U r = 1, b = ($U)x;
  for ($T e = y; e > 0; e = ($T)(e >> 1)) {
    r = e & 1 ? ($U)(1ull * r * b) : r;
    b = ($U)(1ull * b * b);
  }
  $T inverse = x == 1 ? ($T)1 : x == -1 ? ($T)(y & 1 ? -1 : 1) : ($T)0;
  return y < 0 ? inverse : ($T)r;
}
)";

constexpr char kUnsigned[] = R"(
FN $T ph_abs_$D($T x) { return x; }
FN $T ph_sign_$D($T x) { return ($T)(x != 0); }
FN $T ph_mod_$D($T x, $T y) { return ph_fmod_$D(x, y); }
FN $T ph_floor_div_$D($T x, $T y) { return ph_div_$D(x, y); }
FN $T ph_shr_$D($T x, $T y) { return ($T)(y < $W ? x >> (y & ($W - 1)) : 0); }
FN $T ph_shl_$D($T x, $T y) { return ($T)(y < $W ? x << (y & ($W - 1)) : 0); }
FN $T ph_pow_$D($T x, $T y) {
  $U r = 1, b = x;
  for ($T e = y; e > 0; e = ($T)(e >> 1)) {
    r = e & 1 ? ($U)(r * b) : r;
    b = ($U)(b * b);
  }
  return r;
}
)";

constexpr char kAll[] = R"(
FN $T ph_max_$D($T x, $T y) { return x > y ? x : y; }
FN $T ph_min_$D($T x, $T y) { return x < y ? x : y; }
FN $T ph_fmod_$D($T x, $T y) { return y == 0 ? ($T)0 : ($T)(($U)x - ($U)(1ull * ($U)ph_div_$D(x, y) * ($U)y)); }
)";

// A vector processor divides floating numbers only.
constexpr char kNarrowDiv[] = R"(
FN $T ph_div_$D($T x, $T y) {
  bool special = (y == 0) | ((y == ($T)-1) & $SIGNED);
  int q = (int)(($R)x / ($R)(special ? ($T)1 : y));
  $T negated = ($T)(($U)0 - ($U)x);
  return special ? (y == 0 ? ($T)0 : negated) : ($T)q;
}
)";
constexpr char kWideDiv[] = R"(
FN $T ph_div_$D($T x, $T y) {
  bool special = (y == 0) | (y == -1);
  $T q = x / (special ? ($T)1 : y);
  $T negated = ($T)(($U)0 - ($U)x);
  return special ? (y == 0 ? ($T)0 : negated) : q;
}
)";

struct Integer {
  const char* dtype;
  const char* type;
  const char* bits_type;
  const char* bits;
  const char* quotient_type;  // none for i64
  bool is_signed;
};

constexpr Integer kIntegers[] = {
    {"i8", "signed char", "unsigned char", "8", "float", true},
    {"i16", "short", "unsigned short", "16", "float", true},
    {"i32", "int", "unsigned", "32", "double", true},
    {"i64", "long long", "unsigned long long", "64", nullptr, true},
    {"u8", "unsigned char", "unsigned char", "8", "float", false},
};

}  // namespace

std::string IntegerMathText() {
  std::string out;
  for (const Integer& i : kIntegers) {
    const std::string text =
        absl::StrCat(kAll, i.is_signed ? kSigned : kUnsigned, i.quotient_type != nullptr ? kNarrowDiv : kWideDiv);
    absl::StrAppend(&out, absl::StrReplaceAll(text, {{"$D", i.dtype},
                                                     {"$T", i.type},
                                                     {"$U", i.bits_type},
                                                     {"$W", i.bits},
                                                     {"$C", i.dtype == std::string("i64") ? "long long" : "int"},
                                                     {"$SIGNED", i.is_signed ? "true" : "false"},
                                                     {"$R", i.quotient_type != nullptr ? i.quotient_type : ""}}));
  }
  return out;
}

}  // namespace preheat
