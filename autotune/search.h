#ifndef PREHEAT_AUTOTUNE_SEARCH_H_
#define PREHEAT_AUTOTUNE_SEARCH_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/schedule.h"
#include "compiler/compile.h"
#include "compiler/draft.h"

namespace preheat::autotune {

inline constexpr int kMostCandidates = 8;  // of a site, the default among them

// Schedules worth measuring, by site, without the default: each turns one knob of codegen::Knobs. A schedule that makes
// the same kernel as an earlier one of its site is left out, so a site has as many as there are ways to make it, at
// most kMostCandidates - 1. Sites in `known` are passed over. `base` is the program's draft by default schedules.
absl::StatusOr<std::map<std::string, std::vector<codegen::Schedule>>> FindCandidates(
    const Canonical& canonical, const CompileOptions& options, const Draft& base, const std::set<std::string>& known);

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_SEARCH_H_
