#include "compiler/codegen/cuda/cuda_math.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu/math_functions.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {
namespace {

using Table = std::map<std::string, std::string>;

constexpr char kPrefix[] = "static __device__ __forceinline__ ";

// $D dtype, $T its C type, $F the suffix of CUDA's functions. The comparison is false when y is NaN, which then is the
// result.
const std::vector<std::pair<const char*, const char*>>& Templates() {
  static const std::vector<std::pair<const char*, const char*>> templates = {
      {"reciprocal", "$T ph_reciprocal_$D($T x) { return ($T)1.0 / x; }"},
      {"sign", "$T ph_sign_$D($T x) { return x > ($T)0.0 ? ($T)1.0 : x < ($T)0.0 ? ($T)-1.0 : ($T)0.0; }"},
      {"max", "$T ph_max_$D($T x, $T y) { return (x > y) | (x != x) ? x : y; }"},
      {"min", "$T ph_min_$D($T x, $T y) { return (x < y) | (x != x) ? x : y; }"},
      {"mod",
       "$T ph_mod_$D($T x, $T y) {\n  $T m = fmod$F(x, y);\n"
       "  return m != ($T)0.0 && (m < ($T)0.0) != (y < ($T)0.0) ? m + y : m;\n}"},
      {"floor_div",
       "$T ph_floor_div_$D($T x, $T y) {\n  if (y == ($T)0.0) return x / y;\n  $T m = fmod$F(x, y);\n  $T q = (x - m) "
       "/ y;\n"
       "  if (m != ($T)0.0 && (m < ($T)0.0) != (y < ($T)0.0)) q -= ($T)1.0;\n"
       "  if (q == ($T)0.0) return copysign$F(($T)0.0, x / y);\n"
       "  $T f = floor$F(q);\n  return q - f > ($T)0.5 ? f + ($T)1.0 : f;\n}"}};
  return templates;
}

void AddFloat(const char* dtype, const char* type, const char* suffix, Table& table) {
  auto add = [&](absl::string_view name, absl::string_view text) {
    table[absl::StrCat("ph_", name, "_", dtype)] =
        absl::StrCat(kPrefix, absl::StrReplaceAll(text, {{"$D", dtype}, {"$T", type}, {"$F", suffix}}), "\n");
  };
  static constexpr std::pair<const char*, const char*> kUnary[] = {
      {"exp", "exp"},     {"exp2", "exp2"},   {"expm1", "expm1"}, {"log", "log"},     {"log2", "log2"},
      {"log10", "log10"}, {"log1p", "log1p"}, {"sin", "sin"},     {"cos", "cos"},     {"tan", "tan"},
      {"asin", "asin"},   {"acos", "acos"},   {"atan", "atan"},   {"sinh", "sinh"},   {"cosh", "cosh"},
      {"tanh", "tanh"},   {"asinh", "asinh"}, {"acosh", "acosh"}, {"atanh", "atanh"}, {"erf", "erf"},
      {"erfc", "erfc"},   {"sqrt", "sqrt"},   {"floor", "floor"}, {"ceil", "ceil"},   {"trunc", "trunc"},
      {"round", "rint"},  {"abs", "fabs"},    {"rsqrt", "rsqrt"}};
  for (const auto& [name, function] : kUnary) {
    add(name, absl::StrCat("$T ph_", name, "_$D($T x) { return ", function, "$F(x); }"));
  }
  for (const char* name : {"pow", "atan2", "fmod", "copysign", "nextafter"}) {
    add(name, absl::StrCat("$T ph_", name, "_$D($T x, $T y) { return ", name, "$F(x, y); }"));
  }
  for (const auto& [name, text] : Templates()) add(name, text);
}

// One instruction each, from sm_80 on; other compilers take the CPU's texts.
void AddConversions(Table& table) {
  table["ph_f32_to_bf16"] = absl::StrCat(kPrefix,
                                         "unsigned short ph_f32_to_bf16(float x) { unsigned short r; "
                                         "asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x)); return r; }\n");
  table["ph_f32_to_f16"] = absl::StrCat(kPrefix,
                                        "unsigned short ph_f32_to_f16(float x) { unsigned short r; "
                                        "asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x)); return r; }\n");
  table["ph_f16_to_f32"] = absl::StrCat(kPrefix,
                                        "float ph_f16_to_f32(unsigned short x) { float r; asm(\"cvt.f32.f16 %0, %1;\" "
                                        ": \"=f\"(r) : \"h\"(x)); return r; }\n");
}

const Table& Floats() {
  static const Table& table = *[] {
    auto* made = new Table;
    AddFloat("f32", "float", "f", *made);
    AddFloat("f64", "double", "", *made);
    return made;
  }();
  return table;
}

const Table& Instructions() {
  static const Table& table = *[] {
    auto* made = new Table;
    AddConversions(*made);
    return made;
  }();
  return table;
}

struct Near {
  const char* name;
  std::set<std::string> needs;
  const char* text;
};

// For kernels that hold 16-bit floats (CudaText::OpValue). `near`: relative error of about 2^-21, absolute where the
// result is near a zero of erf or tanh; `rough`: 2^-11.
const std::vector<Near>& NearFunctions() {
  static const auto& functions = *new std::vector<Near>{
      {"ph_quotient", {}, R"(
FN long ph_quotient(long a, long b) {
  return ((a | b) >> 31) == 0 ? (long)((unsigned)a / (unsigned)b) : a / b;
}
)"},
      {"ph_two_bf16", {}, R"(
#ifdef __CUDACC_RTC__
FN unsigned ph_two_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
#else
FN unsigned ph_one_bf16(float x) {
  unsigned bits = __builtin_bit_cast(unsigned, x);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u | (bits >> 16 & 0x8000u) : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
FN unsigned ph_two_bf16(float low, float high) { return ph_one_bf16(low) | ph_one_bf16(high) << 16; }
#endif
)"},
      {"ph_two_f16", {}, R"(
#ifdef __CUDACC_RTC__
FN unsigned ph_two_f16(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
#else
FN unsigned ph_two_f16(float low, float high) {
  return (unsigned)__builtin_bit_cast(unsigned short, (_Float16)low) |
         (unsigned)__builtin_bit_cast(unsigned short, (_Float16)high) << 16;
}
#endif
)"},
      {"ph_max_f32", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_max_f32(float x, float y) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
#else
FN float ph_max_f32(float x, float y) { return (x > y) | (x != x) ? x : y; }
#endif
)"},
      {"ph_min_f32", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_min_f32(float x, float y) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
#else
FN float ph_min_f32(float x, float y) { return (x < y) | (x != x) ? x : y; }
#endif
)"},
      {"ph_ex2", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_ex2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
FN float ph_ex2(float x) { return exp2f(x); }
#endif
)"},
      {"ph_near_reciprocal", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_near_reciprocal(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
FN float ph_near_reciprocal(float x) { return 1.0f / x; }
#endif
)"},
      {"ph_near_exp", {"ph_ex2"}, R"(
FN float ph_near_exp(float x) { return ph_ex2(x * 1.44269504f); }
)"},
      {"ph_near_div", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_near_div(float x, float y) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
#else
FN float ph_near_div(float x, float y) { return x / y; }
#endif
)"},
      {"ph_near_sqrt", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_near_sqrt(float x) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
FN float ph_near_sqrt(float x) { return sqrtf(x); }
#endif
)"},
      {"ph_near_tanh", {"ph_ex2", "ph_near_reciprocal"}, R"(
// 1 - 2 / (exp(2 |x|) + 1), and its series where that cancels.
FN float ph_near_tanh(float x) {
  const float a = fabsf(x), z = x * x;
  const float far = fmaf(-2.0f, ph_near_reciprocal(ph_ex2(2.88539008f * a) + 1.0f), 1.0f);
  float p = fmaf(z, 2.1869488e-2f, -5.3968254e-2f);
  p = fmaf(z, p, 0.13333333f);
  p = fmaf(z, p, -0.33333333f);
  const float near = fmaf(a * z, p, a);
  return copysignf(a < 0.35f ? near : far, x);
}
)"},
      {"ph_rough_tanh", {}, R"(
#ifdef __CUDACC_RTC__
FN float ph_rough_tanh(float x) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
FN float ph_rough_tanh(float x) { return tanhf(x); }
#endif
)"},
      {"ph_near_erfc_tail", {"ph_near_reciprocal"}, R"(
// Abramowitz and Stegun 7.1.28: 1 - erf(a) = p(a)^-16 for a >= 0, absolute error 3e-7.
FN float ph_near_erfc_tail(float a) {
  float p = fmaf(a, 4.30638e-5f, 2.765672e-4f);
  p = fmaf(a, p, 1.520143e-4f);
  p = fmaf(a, p, 9.2705272e-3f);
  p = fmaf(a, p, 4.22820123e-2f);
  p = fmaf(a, p, 7.05230784e-2f);
  p = fmaf(a, p, 1.0f);
  p = p * p;
  p = p * p;
  p = p * p;
  return ph_near_reciprocal(p * p);
}
)"},
      {"ph_near_erf", {"ph_near_erfc_tail"}, R"(
FN float ph_near_erf(float x) {
  const float a = fabsf(x), z = x * x;
  float s = fmaf(z, -2.6866171e-2f, 0.11283791f);
  s = fmaf(z, s, -0.37612638f);
  s = fmaf(z, s, 1.1283792f);
  return copysignf(a < 0.3f ? a * s : 1.0f - ph_near_erfc_tail(a), x);
}
)"},
      {"ph_near_one_plus_erf", {"ph_near_erfc_tail"}, R"(
FN float ph_near_one_plus_erf(float x) {
  const float r = ph_near_erfc_tail(fabsf(x));
  return x < 0.0f ? r : 2.0f - r;
}
)"},
      {"ph_near_one_plus_tanh", {"ph_ex2", "ph_near_reciprocal"}, R"(
FN float ph_near_one_plus_tanh(float x) { return 2.0f * ph_near_reciprocal(ph_ex2(-2.88539008f * x) + 1.0f); }
)"},

  };
  return functions;
}

// In the order of the list, each after what it needs.
std::string TakeNear(std::set<std::string>& names) {
  const auto& all = NearFunctions();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (names.count(it->name)) names.insert(it->needs.begin(), it->needs.end());
  }
  std::string text;
  for (const Near& function : all) {
    if (names.erase(function.name) == 0) continue;
    text += absl::StrReplaceAll(function.text, {{"FN ", kPrefix}});
  }
  return text;
}

absl::StatusOr<std::string> FromCpu(const std::set<std::string>& names) {
  ASSIGN_OR_RETURN(std::string text, MathSource(names));
  return absl::StrReplaceAll(text, {{"static inline __attribute__((always_inline)) ", kPrefix},
                                    {"static const ", "static __device__ const "}});
}

}  // namespace

absl::StatusOr<std::string> CudaMathSource(const std::set<std::string>& wanted) {
  std::set<std::string> names = wanted;
  std::string text = TakeNear(names);
  std::set<std::string> converted, rest;
  for (const std::string& name : names) {
    auto it = Floats().find(name);
    if (it != Floats().end()) {
      text += it->second;
    } else {
      (Instructions().count(name) ? converted : rest).insert(name);
    }
  }
  // The CPU's conversions of f64 call those of f32: then all of them are the CPU's.
  bool doubles = rest.count("ph_f64_to_bf16") || rest.count("ph_f64_to_f16");
  if (!doubles && !converted.empty()) {
    text += "#ifdef __CUDACC_RTC__\n";
    for (const std::string& name : converted) text += Instructions().at(name);
    ASSIGN_OR_RETURN(std::string host, FromCpu(converted));
    absl::StrAppend(&text, "#else\n", host, "#endif\n");
    converted.clear();
  }
  rest.insert(converted.begin(), converted.end());
  if (rest.empty()) return text;
  ASSIGN_OR_RETURN(std::string others, FromCpu(rest));
  return text + others;
}

std::string BuiltinsFor(const std::string& source) {
  static constexpr std::pair<const char*, const char*> kBuiltins[] = {
      {"__builtin_nanf", "(x) __int_as_float(0x7fc00000)"},
      {"__builtin_nan", "(x) __longlong_as_double(0x7ff8000000000000LL)"},
      {"__builtin_inff", "() __int_as_float(0x7f800000)"},
      {"__builtin_inf", "() __longlong_as_double(0x7ff0000000000000LL)"},
      {"__builtin_fabsf", "(x) fabsf(x)"},
      {"__builtin_fabs", "(x) fabs(x)"},
      {"__builtin_truncf", "(x) truncf(x)"},
      {"__builtin_trunc", "(x) trunc(x)"},
      {"__builtin_floorf", "(x) floorf(x)"},
      {"__builtin_floor", "(x) floor(x)"},
      {"__builtin_rintf", "(x) rintf(x)"},
      {"__builtin_rint", "(x) rint(x)"}};
  std::string text;
  for (const auto& [name, definition] : kBuiltins) {
    if (absl::StrContains(source, absl::StrCat(name, "("))) absl::StrAppend(&text, "#define ", name, definition, "\n");
  }
  return text.empty() ? text : absl::StrCat("#ifdef __CUDACC_RTC__\n", text, "#endif\n");
}

}  // namespace preheat::codegen
