#include "kernels/runtime/plan_facts.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/check_plan.h"

namespace preheat::runtime {

absl::Status Corrupt(absl::string_view message) {
  return MakeError(
      absl::StatusCode::kDataLoss,
      {.kind = "corrupt_artifact", .message = std::string(message), .where = "", .fix = "fetch the artifact again"});
}

bool PlanFacts::ForGpu() const { return absl::StartsWith(Text(plan.target()), "cuda:"); }

absl::Status PlanFacts::Entry(uint32_t entry, absl::string_view what) const {
  if (entry < plan.sizes()->size()) return absl::OkStatus();
  return Corrupt(absl::StrCat(what, " names size entry ", entry, " of ", plan.sizes()->size()));
}

absl::Status PlanFacts::EachEntry(const Entries* entries, absl::string_view what) const {
  for (uint32_t i = 0; i < Count(entries); ++i) RETURN_IF_ERROR(Entry(entries->Get(i), what));
  return absl::OkStatus();
}

absl::Status PlanFacts::Index(uint64_t index, uint64_t count, absl::string_view what) const {
  if (index < count) return absl::OkStatus();
  return Corrupt(absl::StrCat("there is no ", what, " ", index, ", only ", count));
}

absl::Status PlanFacts::Shape(const Entries* sizes, const Entries* strides, absl::string_view what) const {
  if (Count(sizes) != Count(strides)) return Corrupt(absl::StrCat(what, ": sizes and strides differ in number"));
  if (Count(sizes) > kMaxRank) return Corrupt(absl::StrCat(what, " has rank ", Count(sizes)));
  RETURN_IF_ERROR(EachEntry(sizes, what));
  return EachEntry(strides, what);
}

absl::Status PlanFacts::AtStart(const Entries* entries, absl::string_view what) const {
  for (uint32_t i = 0; i < Count(entries); ++i) {
    if (known[entries->Get(i)] == Known::kAfterStep) return Corrupt(absl::StrCat(what, " depends on a step's result"));
  }
  return absl::OkStatus();
}

}  // namespace preheat::runtime
