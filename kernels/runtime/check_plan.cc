#include "kernels/runtime/check_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/plan_version.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/check_sections.h"
#include "kernels/runtime/check_steps.h"
#include "kernels/runtime/plan_facts.h"

namespace preheat::runtime {
namespace {

constexpr int kMaxSubplanDepth = 8;

absl::Status CheckDefined(const PlanFacts& p) {
  for (uint32_t i = 0; i < Count(p.plan.symbols()); ++i) {
    if (p.plan.symbols()->Get(i)->input() < 0 && p.defined.count(i) == 0) {
      return Corrupt(absl::StrCat("nothing defines symbol ", i));
    }
  }
  return absl::OkStatus();
}

// A plan without its subplans.
absl::Status CheckOne(const plan::Plan& plan, bool is_subplan) {
  PlanFacts p(plan);
  RETURN_IF_ERROR(CheckSections(p));
  if (is_subplan && (Count(plan.prologue()) > 0 || p.frozen_inputs)) {
    return Corrupt("a subplan has a prologue or frozen inputs");
  }
  RETURN_IF_ERROR(p.Entry(plan.arena_bytes(), "arena_bytes"));
  RETURN_IF_ERROR(p.Entry(plan.session_bytes(), "session_bytes"));
  if (p.known[plan.session_bytes()] != Known::kAlways) return Corrupt("session_bytes depends on symbols");
  RETURN_IF_ERROR(CheckSteps(p, /*prologue=*/true));
  RETURN_IF_ERROR(CheckSteps(p, /*prologue=*/false));
  return CheckDefined(p);
}

absl::Status CheckTree(const plan::Plan& plan, int depth) {
  if (depth > kMaxSubplanDepth) return Corrupt("subplans are nested too deep");
  RETURN_IF_ERROR(CheckOne(plan, depth > 0));
  for (uint32_t i = 0; i < Count(plan.subplans()); ++i) {
    RETURN_IF_ERROR(WithWhere(CheckTree(*plan.subplans()->Get(i), depth + 1), absl::StrCat("subplan ", i)));
  }
  return absl::OkStatus();
}

absl::Status CheckVersion(uint32_t version) {
  if (version >= plan::kMinPlanVersion && version <= plan::kPlanVersion) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "incompatible_plan",
                    .message = absl::StrCat("the plan has version ", version, ", this runtime executes ",
                                            plan::kMinPlanVersion, " to ", plan::kPlanVersion),
                    .where = "",
                    .fix = version > plan::kPlanVersion ? "update the runtime" : "compile again"});
}

}  // namespace

absl::StatusOr<const plan::Plan*> CheckPlan(const void* bytes, size_t size) {
  constexpr flatbuffers::uoffset_t kMaxDepth = 64, kMaxTables = 4'000'000;
  if (size > FLATBUFFERS_MAX_BUFFER_SIZE) return Corrupt("the plan is larger than a plan can be");
  flatbuffers::Verifier verifier(static_cast<const uint8_t*>(bytes), size, kMaxDepth, kMaxTables);
  if (size < 16 || !plan::PlanBufferHasIdentifier(bytes) || !plan::VerifyPlanBuffer(verifier)) {
    return Corrupt("the plan is no plan, or is damaged");
  }
  const plan::Plan* plan = plan::GetPlan(bytes);
  RETURN_IF_ERROR(CheckVersion(plan->version()));
  RETURN_IF_ERROR(CheckTree(*plan, 0));
  return plan;
}

}  // namespace preheat::runtime
