#include "autotune/search.h"

#include <utility>

#include "compiler/codegen/target.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {

absl::StatusOr<std::map<std::string, std::vector<codegen::Schedule>>> FindCandidates(
    const Canonical& canonical, const CompileOptions& options, const Draft& base, const std::set<std::string>& known) {
  std::map<std::string, std::vector<codegen::Schedule>> candidates;
  std::map<std::string, std::set<std::string>> variants;  // seen, by site
  for (const Site& site : base.built.sites) {
    variants[site.name].insert(site.variant);
    if (!known.count(site.name)) candidates[site.name];
  }
  const DeviceKind device = DeviceKindOf(options.target);
  for (const codegen::Knob& knob : codegen::Knobs()) {
    if (knob.device != device) continue;
    for (const std::string& value : knob.values) {
      CompileOptions turned = options;
      turned.progress = nullptr;
      turned.schedules.everywhere = {{knob.name, value}};
      ASSIGN_OR_RETURN(Draft draft, MakeDraft(canonical, turned));
      for (const Site& site : draft.built.sites) {
        auto own = candidates.find(site.name);
        if (own == candidates.end() || own->second.size() + 1 >= kMostCandidates) continue;
        if (variants[site.name].insert(site.variant).second) own->second.push_back(turned.schedules.everywhere);
      }
    }
  }
  return candidates;
}

}  // namespace preheat::autotune
