#include "kernels/library/cuda/cudnn_conv.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/library/cuda/algorithm.h"
#include "kernels/library/cuda/cudnn_api.h"
#include "kernels/library/cuda/cudnn_graph.h"
#include "kernels/library/cuda/no_call.h"

namespace preheat::library {
namespace {

using cudnn::Descriptor;
using cudnn::Place;
using cudnn::Plan;
using cudnn::Unsupported;

constexpr int kCrossCorrelation = 1;                                            // a mode
constexpr int64_t kFirst = 1, kSecond = 2, kResult = 3, kBias = 4, kOther = 5;  // uids of what has memory

std::atomic<bool> g_allow_tf32{true};

int64_t ElementSize(int32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::kF64: return 8;
    case DType::kF32: return 4;
    default: return 2;
  }
}

// Strides of a dense tensor, channels last or first.
std::vector<int64_t> DenseStrides(const std::vector<int64_t>& sizes, bool channels_last) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  if (channels_last) strides[1] = next, next *= sizes[1];
  for (size_t d = sizes.size(); d-- > 0;) {
    if (d == 1 && channels_last) continue;
    strides[d] = next;
    next *= sizes[d];
  }
  return strides;
}

// Does the tensor lie like this? Strides of dimensions of one element say nothing.
bool LiesAs(const TensorSpec& t, const std::vector<int64_t>& strides) {
  for (int d = 0; d < t.rank(); ++d) {
    if (t.sizes[d] != 1 && t.strides[d] != strides[d]) return false;
  }
  return true;
}

// What one call is to cuDNN: four or five dimensions, every stride a number that it recognizes.
struct Problem {
  int32_t op = PREHEAT_LIB_CONV;
  cudnn::DataType type = cudnn::kFloat;
  TensorSpec first, second, result;
  std::vector<int64_t> stride, padding, dilation;
  std::optional<TensorSpec> bias, residual;
  bool relu = false;
  bool tf32 = false;
  int64_t alignment = 16;
  Algorithm algorithm;

  std::string Text() const {
    const auto text = [](const TensorSpec& t) {
      return absl::StrCat(absl::StrJoin(t.sizes, ","), "/", absl::StrJoin(t.strides, ","));
    };
    return absl::StrCat("convolution ", op, " ", type, " ", text(first), " ", text(second), " ", text(result), " ",
                        absl::StrJoin(stride, ","), " ", absl::StrJoin(padding, ","), " ", absl::StrJoin(dilation, ","),
                        " ", bias ? text(*bias) : "", " ", residual ? text(*residual) : "", " ", relu, tf32, " ",
                        alignment, " ", algorithm.rank, " ", algorithm.stored);
  }
};

// A dimension of one element before the last: a 1-d convolution is a 2-d one.
void AddHeight(TensorSpec& t) {
  t.sizes.insert(t.sizes.begin() + 2, 1);
  t.strides.insert(t.strides.begin() + 2, t.sizes[3] * t.strides[2]);
}

absl::StatusOr<Problem> ProblemOf(const CallSpec& call) {
  Problem p;
  ASSIGN_OR_RETURN(p.type, cudnn::DataTypeOf(call.result.dtype));
  p.op = call.op;
  p.first = call.operands[0], p.second = call.operands[1], p.result = call.result;
  p.stride = call.stride, p.padding = call.padding, p.dilation = call.dilation;
  p.tf32 = p.type == cudnn::kFloat && g_allow_tf32;
  for (const EpilogueSpec& step : call.epilogue) {
    if (step.op == PREHEAT_LIB_BIAS && !p.bias && !p.residual && !p.relu) {
      p.bias = TensorSpec{step.operand.dtype, {1, step.operand.sizes[0]}, {step.operand.sizes[0], 1}};
      if (step.operand.strides[0] != 1) return Unsupported("a bias that is not dense");
    } else if (step.op == PREHEAT_LIB_RESIDUAL && !p.residual && !p.relu) {
      p.residual = step.operand;
    } else if (step.op == PREHEAT_LIB_RELU && !p.relu) {
      p.relu = true;
    } else {
      return Unsupported("an epilogue of a convolution that cuDNN does not have");
    }
  }
  if (call.spatial() == 1) {
    for (TensorSpec* t : {&p.first, &p.second, &p.result}) AddHeight(*t);
    if (p.residual) AddHeight(*p.residual);
    p.stride.insert(p.stride.begin(), 1), p.padding.insert(p.padding.begin(), 0);
    p.dilation.insert(p.dilation.begin(), 1);
  }
  std::vector<TensorSpec*> all = {&p.first, &p.second, &p.result};
  if (p.residual) all.push_back(&*p.residual);
  // Where all can be said to lie with channels last, they are said to.
  for (const bool channels_last : {true, false}) {
    if (!std::all_of(all.begin(), all.end(),
                     [&](TensorSpec* t) { return LiesAs(*t, DenseStrides(t->sizes, channels_last)); })) {
      continue;
    }
    for (TensorSpec* t : all) t->strides = DenseStrides(t->sizes, channels_last);
    break;
  }
  if (p.bias) p.bias->sizes.resize(p.result.sizes.size(), 1), p.bias->strides.resize(p.result.sizes.size(), 1);
  return p;
}

// The operations of a problem: the convolution, then what follows it on values that have no memory.
class Describer {
 public:
  Describer(const cudnn::Api& api, const Problem& problem, cudnn::Graph& graph)
      : api_(api), p_(problem), graph_(graph) {}

  absl::Status Run() {
    int left = int{p_.residual.has_value()} + int{p_.bias.has_value()} + int{p_.relu};
    const auto next = [&]() {
      return left-- > 0 ? graph_.Virtual(p_.result, ComputeType()) : Tensor(kResult, p_.result);
    };
    ASSIGN_OR_RETURN(const void* first, Tensor(kFirst, p_.first));
    ASSIGN_OR_RETURN(const void* second, Tensor(kSecond, p_.second));
    ASSIGN_OR_RETURN(const void* now, next());
    RETURN_IF_ERROR(Convolution(first, second, now));
    for (const auto& [summand, uid] : {std::pair{&p_.residual, kOther}, {&p_.bias, kBias}}) {
      if (!*summand) continue;
      ASSIGN_OR_RETURN(const void* other, Tensor(uid, **summand));
      ASSIGN_OR_RETURN(const void* to, next());
      RETURN_IF_ERROR(graph_.Pointwise(cudnn::kAdd, now, to, {.other = other, .compute = ComputeType()}));
      now = to;
    }
    if (!p_.relu) return absl::OkStatus();
    ASSIGN_OR_RETURN(const void* to, next());
    return graph_.Pointwise(cudnn::kRelu, now, to, {.compute = ComputeType()});
  }

 private:
  cudnn::DataType ComputeType() const { return p_.type == cudnn::kDouble ? cudnn::kDouble : cudnn::kFloat; }

  absl::StatusOr<const void*> Tensor(int64_t uid, const TensorSpec& t) {
    return graph_.InMemory(uid, t, p_.type, p_.alignment);
  }

  absl::Status Convolution(const void* first, const void* second, const void* result) {
    Descriptor geometry(api_, cudnn::kConvolution);
    geometry.SetEnum(100, cudnn::kDataTypeValue, ComputeType());
    geometry.SetEnum(101, cudnn::kConvolutionModeValue, kCrossCorrelation);
    geometry.SetInts(102, p_.dilation);
    geometry.SetInts(103, p_.stride);
    geometry.SetInts(104, p_.padding);
    geometry.SetInts(105, p_.padding);
    geometry.SetInt(106, static_cast<int64_t>(p_.stride.size()));
    RETURN_IF_ERROR(geometry.Finalize("a convolution's geometry"));
    // Attributes: alpha, beta, the geometry, then the three tensors in cuDNN's order.
    struct Form {
      cudnn::DescriptorType type;
      int attributes[6];
    };
    const Form form = p_.op == PREHEAT_LIB_CONV ? Form{cudnn::kConvForward, {700, 701, 702, 704, 703, 705}}
                      : p_.op == PREHEAT_LIB_CONV_GRAD_INPUT
                          ? Form{cudnn::kConvBackwardData, {706, 707, 708, 711, 709, 710}}
                          : Form{cudnn::kConvBackwardFilter, {712, 713, 714, 717, 716, 715}};
    Descriptor operation(api_, form.type);
    const double one = 1, zero = 0;
    const float one_float = 1, zero_float = 0;
    const bool wide = p_.type == cudnn::kDouble;
    const cudnn::ValueType scalar = wide ? cudnn::kDoubleValue : cudnn::kFloatValue;
    operation.Set(form.attributes[0], scalar, 1, wide ? static_cast<const void*>(&one) : &one_float);
    operation.Set(form.attributes[1], scalar, 1, wide ? static_cast<const void*>(&zero) : &zero_float);
    operation.SetPart(form.attributes[2], geometry);
    operation.Set(form.attributes[3], cudnn::kDescriptorValue, 1, &first);
    operation.Set(form.attributes[4], cudnn::kDescriptorValue, 1, &second);
    operation.Set(form.attributes[5], cudnn::kDescriptorValue, 1, &result);
    std::vector<Descriptor> parts;
    parts.push_back(std::move(geometry));
    return graph_.Add(std::move(operation), std::move(parts), "a convolution");
  }

  const cudnn::Api& api_;
  const Problem& p_;
  cudnn::Graph& graph_;
};

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const cudnn::Api& api, const Place& place,
                                                     const Problem& problem) {
  const bool exact = problem.type == cudnn::kFloat && !problem.tf32;
  // Whose operands may not be rounded takes no stored plan: it does not say whether it rounds.
  if (!problem.algorithm.stored.empty() && !exact) {
    if (auto plan = cudnn::RestorePlan(api, place, problem.algorithm.stored)) return plan;
  }
  cudnn::Graph graph(api);
  RETURN_IF_ERROR(Describer(api, problem, graph).Run());
  return graph.MakePlan(place, {problem.algorithm, exact,
                                absl::StrCat("a convolution of [", absl::StrJoin(problem.first.sizes, ", "), "] and [",
                                             absl::StrJoin(problem.second.sizes, ", "), "]")});
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const cudnn::Api& api, cudnn::Handle& handle,
                                                    const Problem& problem) {
  return cudnn::PlanOnce(handle, problem.Text(), [&](const Place& place) { return MakePlan(api, place, problem); });
}

class CudnnConv : public PreparedCall {
 public:
  CudnnConv(const cudnn::Api& api, cudnn::Handle& handle, const CallSpec& call, Problem problem,
            std::shared_ptr<const Plan> plan)
      : api_(api), handle_(handle), call_(call), problem_(std::move(problem)), plan_(std::move(plan)) {}

  absl::string_view provider() const override { return "cudnn"; }
  std::string algorithm() const override {
    return WriteAlgorithm("cudnn", api_.version(), call_, cudnn::Serialize(api_, *plan_));
  }
  int64_t scratch_bytes() const override { return plan_->choice.workspace; }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    cudnn::Addresses all{{kFirst, kSecond, kResult}, {addresses.operands[0], addresses.operands[1], addresses.result}};
    size_t step = 0;
    if (problem_.bias) all.Add(kBias, addresses.epilogue[step++]);
    if (problem_.residual) all.Add(kOther, addresses.epilogue[step++]);
    std::shared_ptr<const Plan> plan = plan_;
    const bool aligned = std::all_of(all.pointers.begin(), all.pointers.end(),
                                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
    if (!aligned) {
      ASSIGN_OR_RETURN(plan, Unaligned());
    }
    return cudnn::Execute(api_, handle_, *plan, all, addresses.scratch, addresses.stream, "a convolution");
  }

 private:
  // Runs reserve what the plan for aligned addresses needs, so this one may use no more.
  absl::StatusOr<std::shared_ptr<const Plan>> Unaligned() const {
    Problem problem = problem_;
    problem.alignment = ElementSize(problem.result.dtype);
    problem.algorithm = {};
    ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, PlanFor(api_, handle_, problem));
    if (plan->choice.workspace <= plan_->choice.workspace) return plan;
    return Unsupported("a convolution of tensors that are not aligned to 16 bytes");
  }

  const cudnn::Api& api_;
  cudnn::Handle& handle_;
  const CallSpec call_;
  const Problem problem_;
  const std::shared_ptr<const Plan> plan_;
};

}  // namespace

void AllowTf32InConvolutions(bool allow) { g_allow_tf32 = allow; }

absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCudnn(const CallSpec& call) {
  if (call.result.elements() == 0) return std::make_unique<NoCall>();
  if (call.operands[0].elements() == 0 || call.operands[1].elements() == 0) {
    return Unsupported("a convolution over no elements");
  }
  ASSIGN_OR_RETURN(Problem problem, ProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  ASSIGN_OR_RETURN(cudnn::Handle * handle, cudnn::HandleOfContext(*api));
  problem.algorithm = ReadAlgorithm("cudnn", api->version(), call);
  absl::StatusOr<std::shared_ptr<const Plan>> plan = PlanFor(*api, *handle, problem);
  if (!plan.ok() && problem.algorithm.rank > 0) {  // it has not so many proposals
    problem.algorithm = {};
    plan = PlanFor(*api, *handle, problem);
  }
  if (!plan.ok()) return plan.status();
  return std::make_unique<CudnnConv>(*api, *handle, call, std::move(problem), *std::move(plan));
}

absl::StatusOr<cudnn::Choice> ChooseCudnn(const CallSpec& call, absl::string_view device) {
  ASSIGN_OR_RETURN(Problem problem, ProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  ASSIGN_OR_RETURN(const Descriptor described, cudnn::DescribeDevice(*api, device));
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, MakePlan(*api, Place{nullptr, &described}, problem));
  return plan->choice;
}

}  // namespace preheat::library
