#include "compiler/codegen/target.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

// Features beyond a level -> g++'s flag.
const std::map<std::string, std::string>& FeatureFlags() {
  static const std::map<std::string, std::string> flags = {{"avx512_bf16", "-mavx512bf16"},
                                                           {"avx512_vnni", "-mavx512vnni"}};
  return flags;
}

absl::Status Unsupported(absl::string_view target) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "unsupported_target",
       .message = absl::StrCat("no code can be made for target \"", target, "\""),
       .where = "",
       .fix = "use cpu, or cpu:x86-64-v2, cpu:x86-64-v3 or cpu:x86-64-v4, with +avx512_bf16 or +avx512_vnni; "
              "or cuda:sm_80, cuda:sm_86, cuda:sm_89, cuda:sm_90, cuda:sm_100 or cuda:sm_120"});
}

}  // namespace

std::vector<std::string> CpuTarget::CompilerFlags() const {
  std::vector<std::string> flags = {absl::StrCat("-march=", level)};
  if (level == "x86-64-v4") flags.push_back("-mprefer-vector-width=512");
  for (const std::string& feature : features) flags.push_back(FeatureFlags().at(feature));
  return flags;
}

absl::StatusOr<CpuTarget> ParseCpuTarget(absl::string_view target) {
  if (!absl::StartsWith(target, "cpu:")) return Unsupported(target);
  std::vector<std::string> parts = absl::StrSplit(target.substr(4), '+');
  CpuTarget result;
  result.level = parts[0];
  if (result.level != "x86-64-v2" && result.level != "x86-64-v3" && result.level != "x86-64-v4") {
    return Unsupported(target);
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!FeatureFlags().count(parts[i])) return Unsupported(target);
    result.features.push_back(parts[i]);
  }
  return result;
}

DeviceKind DeviceKindOf(absl::string_view target) {
  return absl::StartsWith(target, "cuda") ? DeviceKind::kCuda : DeviceKind::kCpu;
}

std::string CudaTarget::Architecture() const { return absl::StrCat("sm_", sm, sm == 90 ? "a" : ""); }

absl::StatusOr<CudaTarget> ParseCudaTarget(absl::string_view target) {
  for (int sm : {80, 86, 89, 90, 100, 120}) {
    if (target == absl::StrCat("cuda:sm_", sm)) return CudaTarget{sm};
  }
  return Unsupported(target);
}

}  // namespace preheat
