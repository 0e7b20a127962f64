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

absl::StatusOr<std::string> FromCpu(const std::set<std::string>& names) {
  ASSIGN_OR_RETURN(std::string text, MathSource(names));
  return absl::StrReplaceAll(text, {{"static inline __attribute__((always_inline)) ", kPrefix},
                                    {"static const ", "static __device__ const "}});
}

}  // namespace

absl::StatusOr<std::string> CudaMathSource(const std::set<std::string>& names) {
  std::string text;
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
