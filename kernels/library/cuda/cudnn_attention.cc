#include "kernels/library/cuda/cudnn_attention.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/gpus.h"
#include "kernels/library/cuda/algorithm.h"
#include "kernels/library/cuda/attention_problem.h"
#include "kernels/library/cuda/no_call.h"
#include "kernels/library/cuda/plan_files.h"

namespace preheat::library {
namespace {

using cudnn::Graph;
using cudnn::Place;
using cudnn::Plan;
using cudnn::Unsupported;

// Before it, scratch memory is to be zeroed and masks are other numbers.
constexpr size_t kLeastVersion = 91000;

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const cudnn::Api& api, const Place& place,
                                                     const AttentionProblem& p) {
  if (api.version() < kLeastVersion) {
    return Unsupported(absl::StrCat("attention by cuDNN ", api.version(), ", which is older than 9.10"));
  }
  Graph graph(api);
  RETURN_IF_ERROR(DescribeAttention(p, graph));
  return graph.MakePlan(place, {{},
                                false,
                                absl::StrCat("attention", p.gradient ? "'s gradient" : "", " of [",
                                             absl::StrJoin(p.q.sizes, ", "), "] and ", p.columns(), " columns")});
}

// A compiled plan is for the model of GPU that it was made on.
std::string Compiler() { return absl::StrCat("cudnn on ", ModelOfCurrentGpu()); }

// The artifact's own plan, one that an earlier process kept, or a new one, which is kept.
absl::StatusOr<std::shared_ptr<const Plan>> FindPlan(const cudnn::Api& api, const Place& place,
                                                     const AttentionProblem& p) {
  if (!p.stored.empty()) {
    if (auto plan = cudnn::RestorePlan(api, place, p.stored)) return plan;
  }
  const std::string what = absl::StrCat(Compiler(), " ", api.version(), ", ", p.Text());
  if (const std::string kept = ReadPlanFile(what); !kept.empty()) {
    if (auto plan = cudnn::RestorePlan(api, place, kept)) return plan;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, MakePlan(api, place, p));
  if (plan->choice.compiled) WritePlanFile(what, cudnn::Serialize(api, *plan));
  return plan;
}

class CudnnAttention : public PreparedCall {
 public:
  CudnnAttention(const cudnn::Api& api, cudnn::Handle& handle, const CallSpec& call, AttentionProblem problem,
                 std::shared_ptr<const Plan> plan)
      : api_(api),
        handle_(handle),
        call_(call),
        p_(std::move(problem)),
        plan_(std::move(plan)),
        scale_(static_cast<float>(p_.scale)) {}

  absl::string_view provider() const override { return "cudnn"; }
  std::string algorithm() const override {
    return WriteAlgorithm(Compiler(), api_.version(), call_, cudnn::Serialize(api_, *plan_));
  }
  int64_t scratch_bytes() const override { return p_.dots_bytes() + p_.wide_bytes() + plan_->choice.workspace; }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    cudnn::Addresses all{{kQ, kK, kScale}, {addresses.operands[0], addresses.operands[1], &scale_}};
    if (p_.causal) all.Add(kHidden, &kNothing);
    for (size_t i = 0; i < call_.epilogue.size(); ++i) {
      if (const int64_t uid = UidOf(call_.epilogue[i].op); uid != 0) all.Add(uid, addresses.epilogue[i]);
    }
    char* scratch = static_cast<char*>(addresses.scratch);
    if (p_.gradient) {
      all.Add(kOne, &kOneFloat);
      all.Add(kGradQ, addresses.result);
      all.Add(kGradK, addresses.more_results[0]);
      all.Add(kGradV, addresses.more_results[1]);
      all.Add(kDots, scratch);
      all.Add(kWideGradQ, scratch + p_.dots_bytes());
    } else {
      all.Add(kOutput, addresses.result);
      if (p_.has_log_sums) all.Add(kLogSums, addresses.more_results[0]);
    }
    return cudnn::Execute(api_, handle_, *plan_, all, scratch + p_.dots_bytes() + p_.wide_bytes(), addresses.stream,
                          "attention");
  }

 private:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity(), kOneFloat = 1;

  static int64_t UidOf(int32_t step) {
    switch (step) {
      case PREHEAT_LIB_MASK: return kMask;
      case PREHEAT_LIB_VALUES: return kV;
      case PREHEAT_LIB_GRADIENT: return kGradient;
      case PREHEAT_LIB_OUTPUT: return kOutput;
      case PREHEAT_LIB_LOG_SUMS: return kLogSums;
      default: return 0;
    }
  }

  const cudnn::Api& api_;
  cudnn::Handle& handle_;
  const CallSpec call_;
  const AttentionProblem p_;
  const std::shared_ptr<const Plan> plan_;
  const float scale_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCudnnAttention(const CallSpec& call) {
  bool empty = call.result.elements() == 0;
  for (const TensorSpec& more : call.more_results) empty = empty && more.elements() == 0;
  if (empty) return std::make_unique<NoCall>();
  if (call.result.elements() == 0 || call.operands[1].elements() == 0) return Unsupported("attention over no rows");
  ASSIGN_OR_RETURN(AttentionProblem problem, AttentionProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  ASSIGN_OR_RETURN(cudnn::Handle * handle, cudnn::HandleOfContext(*api));
  problem.stored = ReadAlgorithm(Compiler(), api->version(), call).stored;
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                   cudnn::PlanOnce(*handle, absl::StrCat("attention ", problem.Text(), " ", problem.stored),
                                   [&](const Place& place) { return FindPlan(*api, place, problem); }));
  return std::make_unique<CudnnAttention>(*api, *handle, call, std::move(problem), std::move(plan));
}

absl::StatusOr<cudnn::Choice> ChooseCudnnAttention(const CallSpec& call, absl::string_view device) {
  ASSIGN_OR_RETURN(AttentionProblem problem, AttentionProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  ASSIGN_OR_RETURN(const cudnn::Descriptor described, cudnn::DescribeDevice(*api, device));
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, FindPlan(*api, Place{nullptr, &described}, problem));
  return plan->choice;
}

}  // namespace preheat::library
