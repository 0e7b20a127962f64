#include "autotune/search.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/target.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {

namespace {

// What is run, on this machine.
std::string VariantOf(const Site& site) {
  const auto here = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return absl::StrCat(site.variant, " by ", std::min(site.threads, here));
}

bool HasWideVectors(absl::string_view target) {
  const auto cpu = ParseCpuTarget(target);
  return cpu.ok() && cpu->level == "x86-64-v4";
}

}  // namespace

absl::StatusOr<std::map<std::string, std::vector<codegen::Schedule>>> FindCandidates(
    const Canonical& canonical, const CompileOptions& options, const Draft& base, const std::set<std::string>& known) {
  std::map<std::string, std::vector<codegen::Schedule>> candidates;
  std::map<std::string, std::set<std::string>> variants;  // seen, by site
  for (const Site& site : base.built.sites) {
    variants[site.name].insert(VariantOf(site));
    if (!known.count(site.name)) candidates[site.name];
  }
  const DeviceKind device = DeviceKindOf(options.target);
  for (const codegen::Knob& knob : codegen::Knobs()) {
    if (knob.device != device || (knob.name == "width" && !HasWideVectors(options.target))) continue;
    for (const std::string& value : knob.values) {
      CompileOptions turned = options;
      turned.progress = nullptr;
      turned.schedules.everywhere = {{knob.name, value}};
      ASSIGN_OR_RETURN(Draft draft, MakeDraft(canonical, turned));
      for (const Site& site : draft.built.sites) {
        auto own = candidates.find(site.name);
        if (own == candidates.end() || own->second.size() + 1 >= kMostCandidates) continue;
        if (variants[site.name].insert(VariantOf(site)).second) own->second.push_back(turned.schedules.everywhere);
      }
    }
  }
  return candidates;
}

}  // namespace preheat::autotune
