#include "kernels/device/cpu_features.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

enum class Part { kLevel, kNamed, kExtra };  // kNamed: part of a host's own name

struct Feature {
  absl::string_view name;
  Part part;
  bool (*here)();
};

#if defined(__x86_64__)
// __builtin_cpu_supports looks at cpuid and at xgetbv. clang, which only fuzzes, does not know the levels by name.
#if defined(__clang__)
bool Has2() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }
bool Has3() { return Has2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool Has4() { return Has3() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"); }
#else
bool Has2() { return __builtin_cpu_supports("x86-64-v2") != 0; }
bool Has3() { return __builtin_cpu_supports("x86-64-v3") != 0; }
bool Has4() { return __builtin_cpu_supports("x86-64-v4") != 0; }
#endif
constexpr Feature kFeatures[] = {
    {"x86-64-v2", Part::kLevel, Has2},
    {"x86-64-v3", Part::kLevel, Has3},
    {"x86-64-v4", Part::kLevel, Has4},
    {"avx512_vnni", Part::kExtra, [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
    {"avx512_bf16", Part::kNamed, [] { return __builtin_cpu_supports("avx512bf16") != 0; }},
};
#else
constexpr Feature kFeatures[] = {{"generic", Part::kLevel, [] { return true; }}};
#endif

const Feature* Find(absl::string_view name) {
  for (const Feature& feature : kFeatures) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

std::string MakeHostTarget() {
  std::string level = "generic", named;
  for (const Feature& feature : kFeatures) {
    if (!feature.here()) continue;
    if (feature.part == Part::kLevel) level = std::string(feature.name);
    if (feature.part == Part::kNamed) absl::StrAppend(&named, "+", feature.name);
  }
  return absl::StrCat("cpu:", level, named);
}

}  // namespace

const std::string& HostTarget() {
  static const std::string target = MakeHostTarget();
  return target;
}

bool HostHas(absl::string_view feature) {
  const Feature* found = Find(feature);
  return found != nullptr && found->here();
}

absl::Status CheckHostRuns(absl::string_view target) {
  if (!absl::StartsWith(target, "cpu:")) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "unsupported_target",
                      .message = absl::StrCat("this runtime runs CPU artifacts only, not \"", target, "\""),
                      .where = "",
                      .fix = absl::StrCat("compile for ", HostTarget())});
  }
  std::vector<std::string> missing;
  for (absl::string_view name : absl::StrSplit(target.substr(4), '+')) {
    if (!HostHas(name)) missing.push_back(std::string(name));
  }
  if (missing.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "unsupported_cpu",
                    .message = absl::StrCat("the artifact is for ", target, "; this CPU (", HostTarget(), ") lacks ",
                                            absl::StrJoin(missing, ", ")),
                    .where = "",
                    .fix = absl::StrCat("compile for ", HostTarget())});
}

}  // namespace preheat
