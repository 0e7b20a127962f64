// Holds every emitted function against libm in higher precision, for each x86-64 level that this machine has, and each
// source against what kernels may need. PREHEAT_EXHAUSTIVE tries every float.
#include "compiler/codegen/cpu/math_functions.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace preheat {
namespace {

// ---- The shared objects: one a level, with a loop "loop_<name>" over each function ----

const char* CType(const std::string& dtype) {
  static const std::map<std::string, const char*> types = {
      {"f32", "float"},         {"f64", "double"},    {"i8", "signed char"},   {"i16", "short"},
      {"i32", "int"},           {"i64", "long long"}, {"u8", "unsigned char"}, {"bf16", "unsigned short"},
      {"f16", "unsigned short"}};
  return types.at(dtype);
}

bool IsConversion(const std::string& name) { return absl::StrContains(name, "_to_"); }
std::string After(const std::string& text, char separator) { return text.substr(text.rfind(separator) + 1); }

std::string OpOf(const std::string& name) {
  const size_t begin = name.find('_') + 1;
  return name.substr(begin, name.rfind('_') - begin);
}

bool IsBinary(const std::string& name) {
  static const std::set<std::string> ops = {"pow",       "atan2", "fmod", "mod", "floor_div", "copysign",
                                            "nextafter", "max",   "min",  "div", "shl",       "shr"};
  return !IsConversion(name) && ops.count(OpOf(name)) > 0;
}

// Without an instruction for vectors: see math_functions.h.
bool IsScalarByDesign(const std::string& name, const std::string& level) {
  const std::string op = OpOf(name), dtype = After(name, '_');
  if (IsConversion(name)) return dtype == "i64" && level != "x86-64-v4";
  if (dtype == "f64") return op == "fmod" || op == "mod" || op == "floor_div";
  if (dtype == "i64" && (op == "div" || op == "fmod" || op == "mod" || op == "floor_div")) return true;
  if ((dtype == "i8" || dtype == "i16") && op == "shr") return level != "x86-64-v4";
  return dtype[0] != 'f' && op == "pow";
}

// What fused kernels look like. Each was seen to stay scalar under -ftree-pre, which chooses between truth values.
constexpr const char* kCompositions[] = {
    "ph_max_f32(ph_exp_f32(x[i]), ph_bf16_to_f32(ph_f32_to_bf16(ph_sqrt_f32(x[i]))))",
    "ph_mod_f32(ph_tanh_f32(x[i]), ph_acosh_f32(y[i]))",
    "ph_floor_div_f32(ph_log10_f32(x[i]), ph_erfc_f32(y[i]))",
    "ph_pow_f32(ph_rsqrt_f32(x[i]), ph_acosh_f32(y[i]))",
    "ph_nextafter_f32(ph_log1p_f32(x[i]), ph_erf_f32(y[i]))",
    "x[i] > 0 ? ph_tanh_f32(x[i]) : ph_erf_f32(y[i]) / (1 + ph_exp_f32(-x[i]))"};

// "loop_<name>" over an expression of x[i] and y[i]. One line, so that the compiler's report on it speaks of nothing
// else.
std::string LoopOver(const std::string& name, const std::string& expression) {
  const std::string to = CType(After(name, '_'));
  const std::string from = IsConversion(name) ? CType(name.substr(3, name.find("_to_") - 3)) : to;
  return absl::StrCat(
      "extern \"C\" void loop_", name, "(const ", from, "* __restrict x, const ", from, "* __restrict y, ", to,
      "* __restrict r, long n) { (void)y; _Pragma(\"omp simd\") for (long i = 0; i < n; ++i) r[i] = ", expression,
      "; }\n");
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Output(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  return pclose(pipe) == 0 ? out : "failed: " + command + "\n" + out;
}

struct Library {
  std::string level;
  std::string path;
  std::set<std::string> vectorized;
  void* handle = nullptr;

  template <typename From, typename To>
  void Run(const std::string& name, const From* x, const From* y, To* r, long n) const {
    auto* loop =
        reinterpret_cast<void (*)(const From*, const From*, To*, long)>(dlsym(handle, ("loop_" + name).c_str()));
    ASSERT_NE(loop, nullptr) << name;
    loop(x, y, r, n);
  }
};

bool CanRun(const std::string& level) {
  if (level == "x86-64-v2") return __builtin_cpu_supports("sse4.2");
  if (level == "x86-64-v3") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

Library Build(const std::string& folder, const std::string& level) {
  const std::vector<std::string> names = MathNames();
  std::string source = MathSource({names.begin(), names.end()}).value();
  long line = std::count(source.begin(), source.end(), '\n');
  std::map<long, std::string> lines;
  for (const std::string& name : names) {
    source += LoopOver(name, absl::StrCat(name, IsBinary(name) ? "(x[i], y[i])" : "(x[i])"));
    lines[++line] = name;
  }
  for (size_t i = 0; i < std::size(kCompositions); ++i) {
    source += LoopOver(absl::StrCat("ph_", i, "_f32"), kCompositions[i]);
    lines[++line] = kCompositions[i];
  }
  Library library{.level = level, .path = absl::StrCat(folder, "/", level, ".so"), .vectorized = {}};
  const std::string cc = absl::StrCat(folder, "/", level, ".cc"), report = absl::StrCat(folder, "/", level, ".txt");
  std::ofstream(cc) << source;
  // The flags of kernels, warnings instead of -w, and -fno-ipa-icf, or else g++ merges loops that are alike and reports
  // on one.
  const std::string built = Output(absl::StrCat(
      "g++ -std=c++17 -Wall -Wextra -Werror -Wno-unused-function -O3 -fPIC -fopenmp-simd -fno-math-errno "
      "-fno-trapping-math "
      "-ffp-contract=fast -fwrapv -fno-tree-loop-distribute-patterns -fno-tree-pre -fno-ipa-icf -nostdlib -shared "
      "-fopt-info-vec-optimized=",
      report, " -march=", level, " ", cc, " -o ", library.path, " 2>&1"));
  EXPECT_EQ(built, "");
  for (absl::string_view text : absl::StrSplit(ReadAll(report), '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    if (parts.size() < 3 || !absl::StrContains(text, "loop vectorized")) continue;
    const auto it = lines.find(std::stol(parts[1]));
    if (it != lines.end()) library.vectorized.insert(it->second);
  }
  if (CanRun(level)) library.handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library;
}

const std::vector<Library>& Libraries() {
  static const std::vector<Library>& libraries = *[] {
    char folder[] = "/tmp/preheat_math_XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    auto* built = new std::vector<Library>;
    for (const char* level : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) built->push_back(Build(folder, level));
    EXPECT_EQ(
        Output(absl::StrCat("readelf -d ", folder, "/*.so | grep NEEDED; nm -u ", folder, "/*.so | grep ' U '; true")),
        "");
    Output(absl::StrCat("rm -r ", folder));  // the objects stay mapped
    return built;
  }();
  return libraries;
}

// ---- Measuring ----

// PREHEAT_EXHAUSTIVE: 1 for all operators, or some of them: "exp,tanh".
bool Exhaustive(const std::string& op) {
  const char* value = std::getenv("PREHEAT_EXHAUSTIVE");
  const std::vector<std::string> ops = absl::StrSplit(value == nullptr ? "" : value, ',');
  return std::count(ops.begin(), ops.end(), op) + std::count(ops.begin(), ops.end(), "1") > 0;
}

// |got - want| in units of T's last place at `want`; infinite where one is NaN, or a zero has the wrong sign.
template <typename T, typename Wide>
double UlpError(T got, Wide want) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  if (std::isinf(static_cast<T>(want)) && std::isinf(got)) return (got > 0) == (want > 0) ? 0 : kWrong;
  constexpr int kDigits = std::numeric_limits<T>::digits, kMin = std::numeric_limits<T>::min_exponent;
  int exponent = 0;
  std::frexp(want, &exponent);
  const Wide ulp = std::ldexp(Wide(1), (want == 0 ? kMin : std::max(exponent, kMin)) - kDigits);
  if (static_cast<T>(want) == 0 && got == 0 && std::signbit(got) != std::signbit(want)) return kWrong;
  const Wide value =
      std::isinf(got) ? std::copysign(std::ldexp(Wide(1), std::numeric_limits<T>::max_exponent), Wide(got)) : Wide(got);
  return static_cast<double>(std::fabs(value - want) / ulp);
}

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <typename T>
T FromBits(Bits<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Every exponent and sign with mantissas at the ends, the middle and around sqrt(2), e, pi.
template <typename T>
std::vector<T> Specials() {
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  constexpr Bits<T> kOne = 1;
  std::vector<Bits<T>> mantissas = {0,
                                    1,
                                    2,
                                    3,
                                    kOne << (kMantissa - 1),
                                    (kOne << (kMantissa - 1)) - 1,
                                    (kOne << kMantissa) - 1,
                                    (kOne << kMantissa) - 2};
  for (double value :
       {1.41421356237309515, 1.35914091422952255, 1.57079632679489656, 1.3862943611198906, 1.1547, 1.75}) {
    const auto m = static_cast<Bits<T>>(std::ldexp(value - 1, kMantissa));
    for (Bits<T> d : {0, 1, 2}) mantissas.push_back(m + d - 1);
  }
  std::vector<T> out;
  for (Bits<T> top = 0; top < (kOne << (sizeof(T) * 8 - kMantissa)); ++top) {
    for (Bits<T> m : mantissas) out.push_back(FromBits<T>((top << kMantissa) | m));
  }
  return out;
}

// Numbers of ordinary size: 1.37^k and multiples of pi / 2, where functions have their shape, turns and zeros.
template <typename T>
std::vector<T> Ordinary(int count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<T> out;
  for (int i = 0; i < count; ++i) {
    const double scales[] = {1, 2, 6, 28, 100, 750, 1e5, 0.01, 1e9};
    out.push_back(static_cast<T>(unit(random) * scales[i % 9]));
    if (i % 5 == 0) out.push_back(static_cast<T>(1.5707963267948966 * std::round(unit(random) * 1000)));
    if (i % 5 == 1) out.push_back(static_cast<T>(1 + unit(random) * 1e-3));
  }
  return out;
}

template <typename T>
std::vector<T> AnyBits(int count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> out(count);
  for (T& v : out) v = FromBits<T>(static_cast<Bits<T>>(random()));
  return out;
}

template <typename T>
void Append(std::vector<T>* to, const std::vector<T>& from) {
  to->insert(to->end(), from.begin(), from.end());
}

struct Worst {
  double ulp = 0;
  double x = 0, y = 0, got = 0, want = 0;
};

// Worst errors by function and level, over however many blocks of inputs.
using Report = std::map<std::string, Worst>;

template <typename T, typename Wide>
void Compare(const std::string& name, const std::vector<T>& x, const std::vector<T>& y, const std::vector<Wide>& want,
             Report* report) {
  std::vector<T> got(x.size());
  for (const Library& library : Libraries()) {
    if (library.handle == nullptr) continue;
    library.Run(name, x.data(), y.data(), got.data(), static_cast<long>(x.size()));
    Worst& worst = (*report)[library.level];
    for (size_t i = 0; i < x.size(); ++i) {
      const double ulp = UlpError<T, Wide>(got[i], want[i]);
      if (ulp > worst.ulp) worst = {ulp, double(x[i]), double(y[i]), double(got[i]), double(want[i])};
    }
  }
}

void Judge(const std::string& name, const Report& report, double limit) {
  std::string row;
  for (const auto& [level, worst] : report) {
    absl::StrAppendFormat(&row, "  %8.3f", worst.ulp);
    EXPECT_LE(worst.ulp, limit) << name << " for " << level
                                << absl::StrFormat(": (%.17g, %.17g) = %.17g, not %.17g", worst.x, worst.y, worst.got,
                                                   worst.want);
  }
  std::printf("max ulp %-16s%s\n", name.c_str(), row.c_str());
}

// ---- References ----

// Of f32 in double, of f64 in long double.
template <typename W>
std::map<std::string, std::function<W(W)>> UnaryReferences() {
  return {{"exp", [](W x) { return std::exp(x); }},     {"exp2", [](W x) { return std::exp2(x); }},
          {"expm1", [](W x) { return std::expm1(x); }}, {"log", [](W x) { return std::log(x); }},
          {"log2", [](W x) { return std::log2(x); }},   {"log10", [](W x) { return std::log10(x); }},
          {"log1p", [](W x) { return std::log1p(x); }}, {"sin", [](W x) { return std::sin(x); }},
          {"cos", [](W x) { return std::cos(x); }},     {"tan", [](W x) { return std::tan(x); }},
          {"asin", [](W x) { return std::asin(x); }},   {"acos", [](W x) { return std::acos(x); }},
          {"atan", [](W x) { return std::atan(x); }},   {"sinh", [](W x) { return std::sinh(x); }},
          {"cosh", [](W x) { return std::cosh(x); }},   {"tanh", [](W x) { return std::tanh(x); }},
          {"asinh", [](W x) { return std::asinh(x); }}, {"acosh", [](W x) { return std::acosh(x); }},
          {"atanh", [](W x) { return std::atanh(x); }}, {"erf", [](W x) { return std::erf(x); }},
          {"erfc", [](W x) { return std::erfc(x); }},   {"rsqrt", [](W x) { return 1 / std::sqrt(x); }},
          {"sqrt", [](W x) { return std::sqrt(x); }},   {"reciprocal", [](W x) { return 1 / x; }},
          {"ceil", [](W x) { return std::ceil(x); }},   {"floor", [](W x) { return std::floor(x); }},
          {"trunc", [](W x) { return std::trunc(x); }}, {"round", [](W x) { return std::nearbyint(x); }},
          {"abs", [](W x) { return std::fabs(x); }},    {"sign", [](W x) { return W(x > 0) - W(x < 0); }}};
}

// What eager does with operands of type T.
template <typename T>
T ModReference(T x, T y) {
  T m = std::fmod(x, y);
  if (m != 0 && (m < 0) != (y < 0)) m += y;
  return m;
}
template <typename T>
T FloorDivReference(T x, T y) {
  if (y == 0) return x / y;
  const T m = std::fmod(x, y);
  T q = (x - m) / y;
  if (m != 0 && (m < 0) != (y < 0)) q -= 1;
  if (q == 0) return std::copysign(T(0), x / y);
  const T f = std::floor(q);
  return q - f > T(0.5) ? f + 1 : f;
}
template <typename T>
T LargerReference(T x, T y) {
  return std::isnan(x) || std::isnan(y) ? T(NAN) : x > y ? x : y;
}
template <typename T>
T SmallerReference(T x, T y) {
  return std::isnan(x) || std::isnan(y) ? T(NAN) : x < y ? x : y;
}

template <typename T, typename W>
std::map<std::string, std::function<W(T, T)>> BinaryReferences() {
  return {{"pow", [](T x, T y) { return std::pow(W(x), W(y)); }},
          {"atan2", [](T x, T y) { return std::atan2(W(x), W(y)); }},
          {"fmod", [](T x, T y) { return W(std::fmod(x, y)); }},
          {"mod", [](T x, T y) { return W(ModReference(x, y)); }},
          {"floor_div", [](T x, T y) { return W(FloorDivReference(x, y)); }},
          {"copysign", [](T x, T y) { return W(std::copysign(x, y)); }},
          {"nextafter", [](T x, T y) { return W(std::nextafter(x, y)); }},
          {"max", [](T x, T y) { return W(LargerReference(x, y)); }},
          {"min", [](T x, T y) { return W(SmallerReference(x, y)); }}};
}

// What we promise. Most are well below; the rest of the arithmetic is exact or one rounding.
double Limit(const std::string& op) {
  static const std::map<std::string, double> limits = {
      {"sqrt", 0.5},   {"reciprocal", 0.5}, {"rsqrt", 1.5}, {"ceil", 0}, {"floor", 0}, {"trunc", 0},
      {"round", 0},    {"abs", 0},          {"sign", 0},    {"fmod", 0}, {"mod", 0},   {"floor_div", 0},
      {"copysign", 0}, {"nextafter", 0},    {"max", 0},     {"min", 0}};
  const auto it = limits.find(op);
  return it == limits.end() ? 2 : it->second;
}

// ---- Tests ----

TEST(MathFunctions, EveryNameThatTheHeaderPromises) {
  for (const char* dtype : {"f32", "f64"}) {
    for (const auto& [op, reference] : UnaryReferences<double>())
      EXPECT_TRUE(HasMath(absl::StrCat("ph_", op, "_", dtype))) << op;
    for (const auto& [op, reference] : BinaryReferences<float, double>())
      EXPECT_TRUE(HasMath(absl::StrCat("ph_", op, "_", dtype))) << op;
    for (const char* to : {"bf16", "f16", "i8", "i16", "i32", "i64", "u8"})
      EXPECT_TRUE(HasMath(absl::StrCat("ph_", dtype, "_to_", to))) << to;
  }
  for (const char* dtype : {"i8", "i16", "i32", "i64", "u8"}) {
    for (const char* op : {"div", "floor_div", "mod", "fmod", "pow", "abs", "sign", "shl", "shr", "max", "min"}) {
      EXPECT_TRUE(HasMath(absl::StrCat("ph_", op, "_", dtype))) << op << dtype;
    }
  }
  EXPECT_TRUE(HasMath("ph_bf16_to_f32") && HasMath("ph_f16_to_f32"));
}

TEST(MathFunctions, UnknownNamesAreErrors) {
  EXPECT_FALSE(HasMath("ph_gamma_f32"));
  EXPECT_FALSE(HasMath("phx_near_f32")) << "helpers are not for callers";
  EXPECT_EQ(MathSource({"ph_exp_f32", "ph_gamma_f32"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MathFunctions, ASourceHoldsWhatIsNeededOnce) {
  const std::string source = MathSource({"ph_exp_f32", "ph_tanh_f32"}).value();
  EXPECT_TRUE(absl::StrContains(source, "ph_tanh_f32(float x)"));
  EXPECT_FALSE(absl::StrContains(source, "f64"));
  EXPECT_EQ(source.find("phx_pow2_f32(float k)"), source.rfind("phx_pow2_f32(float k)"));
  EXPECT_EQ(MathSource({}).value(), "");
}

TEST(MathFunctions, LoopsAreVectorized) {
  for (const Library& library : Libraries()) {
    if (library.level == "x86-64-v2") continue;  // promised from v3 on
    for (const std::string& name : MathNames()) {
      EXPECT_EQ(library.vectorized.count(name), IsScalarByDesign(name, library.level) ? 0u : 1u)
          << name << " for " << library.level;
    }
    for (const char* text : kCompositions)
      EXPECT_EQ(library.vectorized.count(text), 1u) << text << " for " << library.level;
  }
}

template <typename T, typename W>
void CheckUnary(const std::string& dtype, const std::vector<std::vector<T>>& blocks) {
  for (const auto& [op, reference] : UnaryReferences<W>()) {
    Report report;
    for (const std::vector<T>& x : blocks) {
      std::vector<W> want(x.size());
      std::transform(x.begin(), x.end(), want.begin(), reference);
      Compare("ph_" + op + "_" + dtype, x, x, want, &report);
    }
    Judge("ph_" + op + "_" + dtype, report, Limit(op));
  }
}

TEST(MathFunctions, UnaryF32) {
  std::vector<float> x = Specials<float>();
  Append(&x, Ordinary<float>(100000, 1));
  for (uint64_t bits = 0; bits < (1ull << 32); bits += 2039) x.push_back(FromBits<float>(static_cast<uint32_t>(bits)));
  CheckUnary<float, double>("f32", {x});
}

TEST(MathFunctions, UnaryF32Exhaustive) {
  if (std::getenv("PREHEAT_EXHAUSTIVE") == nullptr) GTEST_SKIP() << "PREHEAT_EXHAUSTIVE=1 tries every float (an hour)";
  for (const auto& [op, reference] : UnaryReferences<double>()) {
    if (!Exhaustive(op)) continue;
    Report report;
    std::vector<float> x(1 << 20);
    std::vector<double> want(x.size());
    for (uint64_t block = 0; block < (1ull << 32); block += x.size()) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = FromBits<float>(static_cast<uint32_t>(block + i));
      std::transform(x.begin(), x.end(), want.begin(), reference);
      Compare("ph_" + op + "_f32", x, x, want, &report);
    }
    Judge("ph_" + op + "_f32", report, Limit(op));
  }
}

TEST(MathFunctions, UnaryF64) {
  std::vector<double> x = Specials<double>();
  Append(&x, Ordinary<double>(300000, 2));
  Append(&x, AnyBits<double>(200000, 3));
  CheckUnary<double, long double>("f64", {x});
}

// Pairs of any bits, of ordinary numbers, equal ones, and of all that is special.
template <typename T>
void Pairs(int count, std::vector<T>* x, std::vector<T>* y) {
  *x = AnyBits<T>(count, 4);
  *y = AnyBits<T>(count, 5);
  Append(x, Ordinary<T>(count, 6));
  Append(y, Ordinary<T>(count, 7));
  std::vector<T> a = Ordinary<T>(count, 8), b = AnyBits<T>(static_cast<int>(a.size()), 9);
  for (size_t i = 0; i < a.size(); ++i)
    b[i] = i % 3 == 0 ? a[i] : i % 3 == 1 ? std::nextafter(a[i], b[i]) : std::round(a[i]);
  Append(x, a);
  Append(y, b);
  // Powers near the limits of the range.
  for (T base : Ordinary<T>(count, 10)) {
    x->push_back(std::fabs(base));
    y->push_back(static_cast<T>((y->size() % 2 ? 1 : -1.06) * std::numeric_limits<T>::max_exponent /
                                std::log2(std::fabs(base))));
  }
  std::vector<T> special = {0,
                            0.5,
                            1,
                            1.5,
                            2,
                            3,
                            4,
                            5,
                            7,
                            1e9,
                            std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::min(),
                            std::numeric_limits<T>::denorm_min(),
                            std::numeric_limits<T>::infinity(),
                            std::numeric_limits<T>::quiet_NaN(),
                            T(1) - std::numeric_limits<T>::epsilon() / 2,
                            T(1) + std::numeric_limits<T>::epsilon(),
                            std::ldexp(T(1), std::numeric_limits<T>::digits),
                            std::ldexp(T(1), std::numeric_limits<T>::digits) - 1};
  const size_t positive = special.size();
  for (size_t i = 0; i < positive; ++i) special.push_back(-special[i]);
  for (T p : special) {
    for (T q : special) {
      x->push_back(p);
      y->push_back(q);
    }
  }
}

template <typename T, typename W>
void CheckBinary(const std::string& dtype, int count) {
  std::vector<T> x, y;
  Pairs<T>(count, &x, &y);
  for (const auto& [op, reference] : BinaryReferences<T, W>()) {
    std::vector<W> want(x.size());
    std::transform(x.begin(), x.end(), y.begin(), want.begin(), reference);
    Report report;
    Compare("ph_" + op + "_" + dtype, x, y, want, &report);
    Judge("ph_" + op + "_" + dtype, report, Limit(op));
  }
}

TEST(MathFunctions, BinaryF32) { CheckBinary<float, double>("f32", 400000); }
TEST(MathFunctions, BinaryF64) { CheckBinary<double, long double>("f64", 200000); }

// Sixteen bits of a float: `fraction` bits of mantissa, least normal exponent `lowest`, infinity from 2^top on.
uint16_t HalfReference(double x, int fraction, int lowest, int top) {
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const int inf = ((top - lowest + 1) << fraction);
  if (std::isnan(x)) return static_cast<uint16_t>(sign | inf | 1);
  const double a = std::fabs(x);
  if (a == 0) return static_cast<uint16_t>(sign);
  if (std::isinf(a)) return static_cast<uint16_t>(sign | inf);
  const int exponent = std::max(std::ilogb(a), lowest);
  const double units = std::nearbyint(std::ldexp(a, fraction - exponent));
  const double bits = units + std::ldexp(exponent - lowest, fraction);
  return static_cast<uint16_t>(sign | (bits >= inf ? inf : static_cast<int>(bits)));
}

double HalfValue(uint16_t bits, int fraction, int lowest) {
  const int exponent = (bits & 0x7fff) >> fraction, mantissa = bits & ((1 << fraction) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (0x7fff >> fraction)) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, lowest - fraction);
  return sign * std::ldexp(mantissa + (1 << fraction), exponent - 1 + lowest - fraction);
}

struct Half {
  const char* dtype;
  int fraction, lowest, top;
};
constexpr Half kHalves[] = {{"f16", 10, -14, 16}, {"bf16", 7, -126, 128}};

template <typename T>
void CheckToHalf(const std::string& dtype, const std::vector<T>& x) {
  std::vector<uint16_t> got(x.size());
  for (const Library& library : Libraries()) {
    if (library.handle == nullptr) continue;
    for (const Half& half : kHalves) {
      library.Run(absl::StrCat("ph_", dtype, "_to_", half.dtype), x.data(), x.data(), got.data(),
                  static_cast<long>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const uint16_t want = HalfReference(x[i], half.fraction, half.lowest, half.top);
        if (std::isnan(x[i])) {
          ASSERT_TRUE(std::isnan(HalfValue(got[i], half.fraction, half.lowest))) << half.dtype;
        } else {
          ASSERT_EQ(got[i], want) << dtype << " " << double(x[i]) << " to " << half.dtype << " for " << library.level;
        }
      }
    }
  }
}

TEST(MathFunctions, HalvesFromWider) {
  std::vector<float> x = Specials<float>();
  for (uint64_t bits = 0; bits < (1ull << 32); bits += Exhaustive("halves") ? 1 : 1021)
    x.push_back(FromBits<float>(static_cast<uint32_t>(bits)));
  std::vector<double> wide = Specials<double>();
  // Every half, the middle between it and the next, and their neighbours: where rounding decides.
  for (const Half& half : kHalves) {
    for (int bits = 0; bits < 0x7fff; ++bits) {
      const double here = HalfValue(static_cast<uint16_t>(bits), half.fraction, half.lowest);
      const double next = HalfValue(static_cast<uint16_t>(bits + 1), half.fraction, half.lowest);
      const double middle = std::isinf(next) ? here * (1 + std::ldexp(1.0, -half.fraction - 2)) : (here + next) / 2;
      for (double v : {here, middle}) {
        for (double w : {v, -v}) {
          wide.insert(wide.end(),
                      {w, std::nextafter(w, 0.0), std::nextafter(w, 2 * w), w * (1 + 1e-12), w * (1 - 1e-9)});
          x.insert(x.end(), {float(w), std::nextafter(float(w), 0.0f), std::nextafter(float(w), 2 * float(w))});
        }
      }
    }
  }
  CheckToHalf("f32", x);
  CheckToHalf("f64", wide);
}

TEST(MathFunctions, EveryHalfWidens) {
  std::vector<uint16_t> x(65536);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
  std::vector<float> got(x.size());
  for (const Library& library : Libraries()) {
    if (library.handle == nullptr) continue;
    for (const Half& half : kHalves) {
      library.Run(absl::StrCat("ph_", half.dtype, "_to_f32"), x.data(), x.data(), got.data(), 65536);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(UlpError(got[i], HalfValue(x[i], half.fraction, half.lowest)), 0) << i;
    }
  }
}

int32_t Truncate32(float x) { return _mm_cvttss_si32(_mm_set_ss(x)); }
int32_t Truncate32(double x) { return _mm_cvttsd_si32(_mm_set_sd(x)); }
int64_t Truncate64(float x) { return _mm_cvttss_si64(_mm_set_ss(x)); }
int64_t Truncate64(double x) { return _mm_cvttsd_si64(_mm_set_sd(x)); }

template <typename From, typename To>
void CheckCast(const std::string& name, const std::vector<From>& x, const std::function<To(From)>& reference) {
  std::vector<To> got(x.size());
  for (const Library& library : Libraries()) {
    if (library.handle == nullptr) continue;
    library.Run(name, x.data(), x.data(), got.data(), static_cast<long>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(got[i], reference(x[i])) << name << " of " << double(x[i]) << " for " << library.level;
  }
}

template <typename T>
void CheckCasts(const std::string& dtype) {
  std::vector<T> x = Specials<T>();
  Append(&x, Ordinary<T>(20000, 11));
  for (double edge :
       {128.0, 256.0, 300.0, 32768.0, 65536.0, 2147483648.0, 4294967296.0, 3000000007.0, 9223372036854775808.0}) {
    for (double d : {-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5})
      x.insert(x.end(),
               {T(edge + d), T(-edge + d), std::nextafter(T(edge), T(0)), std::nextafter(-T(edge), -T(INFINITY))});
  }
  CheckCast<T, int32_t>("ph_" + dtype + "_to_i32", x, [](T v) { return Truncate32(v); });
  CheckCast<T, long long>("ph_" + dtype + "_to_i64", x, [](T v) { return Truncate64(v); });
  CheckCast<T, int8_t>("ph_" + dtype + "_to_i8", x, [](T v) { return static_cast<int8_t>(Truncate32(v)); });
  CheckCast<T, int16_t>("ph_" + dtype + "_to_i16", x, [](T v) { return static_cast<int16_t>(Truncate32(v)); });
  CheckCast<T, uint8_t>("ph_" + dtype + "_to_u8", x, [](T v) { return static_cast<uint8_t>(Truncate64(v)); });
}

TEST(MathFunctions, CastsAreThoseOfTheProcessor) {
  CheckCasts<float>("f32");
  CheckCasts<double>("f64");
}

// Integers in 128 bits, cut to T.
using Int = __int128;
Int DivReference(Int x, Int y) { return y == 0 ? 0 : x / y; }
Int RemainderReference(Int x, Int y) { return y == 0 ? 0 : x % y; }
bool SignsDiffer(Int m, Int y) { return m != 0 && (m < 0) != (y < 0); }

template <typename T>
Int PowReference(Int x, Int y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  uint64_t r = 1, b = static_cast<uint64_t>(x);
  for (; y > 0; y /= 2, b *= b) r *= y % 2 ? b : 1;
  return static_cast<Int>(r);
}

template <typename T>
void CheckInteger(const std::string& dtype, const std::vector<T>& x, const std::vector<T>& y) {
  constexpr int kBits = sizeof(T) * 8, kTop = std::is_signed_v<T> ? kBits - 1 : kBits;
  const std::map<std::string, std::function<Int(Int, Int)>> references = {
      {"div", DivReference},
      {"fmod", RemainderReference},
      {"mod",
       [](Int a, Int b) { return RemainderReference(a, b) + (SignsDiffer(RemainderReference(a, b), b) ? b : 0); }},
      {"floor_div",
       [](Int a, Int b) { return DivReference(a, b) - (SignsDiffer(RemainderReference(a, b), b) ? 1 : 0); }},
      {"pow", PowReference<T>},
      {"abs", [](Int a, Int) { return a < 0 ? -a : a; }},
      {"sign", [](Int a, Int) { return Int(a > 0) - Int(a < 0); }},
      {"shl", [](Int a, Int b) { return b < 0 || b >= kBits ? 0 : a * (Int(1) << b); }},
      {"shr", [](Int a, Int b) { return a >> (b < 0 || b >= kBits ? kTop : int(b)); }},
      {"max", [](Int a, Int b) { return std::max(a, b); }},
      {"min", [](Int a, Int b) { return std::min(a, b); }}};
  std::vector<T> got(x.size());
  for (const Library& library : Libraries()) {
    if (library.handle == nullptr) continue;
    for (const auto& [op, reference] : references) {
      library.Run("ph_" + op + "_" + dtype, x.data(), y.data(), got.data(), static_cast<long>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(got[i], static_cast<T>(reference(x[i], y[i])))
            << op << " " << dtype << " of " << int64_t{x[i]} << ", " << int64_t{y[i]};
      }
    }
  }
}

// Every pair for 8 bits; else corners with each other, any bits, and any bits with small numbers.
template <typename T>
void CheckIntegers(const std::string& dtype) {
  std::vector<T> x, y;
  std::vector<T> corners;
  for (int i = -130; i <= 130; ++i) corners.push_back(static_cast<T>(i));
  for (T limit : {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()}) {
    for (int d = -3; d <= 3; ++d)
      corners.push_back(static_cast<T>(static_cast<uint64_t>(limit) + static_cast<uint64_t>(d)));
  }
  for (T a : corners) {
    for (T b : corners) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::mt19937_64 random(12);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(static_cast<T>(random()));
    y.push_back(static_cast<T>(static_cast<int64_t>(random()) >> (random() % 64)));
  }
  CheckInteger<T>(dtype, x, y);
}

TEST(MathFunctions, Integers) {
  CheckIntegers<int8_t>("i8");
  CheckIntegers<uint8_t>("u8");
  CheckIntegers<int16_t>("i16");
  CheckIntegers<int32_t>("i32");
  CheckIntegers<int64_t>("i64");
}

}  // namespace
}  // namespace preheat
