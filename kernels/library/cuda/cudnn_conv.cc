#include "kernels/library/cuda/cudnn_conv.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
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

namespace preheat::library {
namespace {

using cudnn::Descriptor;

constexpr int64_t kMostWorkspace = int64_t{256} << 20, kMostPlanBytes = int64_t{1} << 20;
constexpr int kFloat = 0, kDouble = 1, kHalf = 2, kBFloat16 = 9;                // data types
constexpr int kCrossCorrelation = 1, kAdd = 0, kRelu = 100;                     // modes
constexpr int kModeFallback = 2, kModeA = 3;                                    // of heuristics
constexpr int kTensorCore = 0, kDownConvert = 1, kRuntimeCompilation = 0;       // notes
constexpr int64_t kFirst = 1, kSecond = 2, kResult = 3, kBias = 4, kOther = 5;  // uids of what has memory

std::atomic<bool> g_allow_tf32{true};

absl::Status Unsupported(std::string message) {
  return MakeError(absl::StatusCode::kUnimplemented, {.kind = "unsupported_library_call",
                                                      .message = std::move(message),
                                                      .where = "",
                                                      .fix = "exclude the operator, so that torch runs it"});
}

absl::StatusOr<int> DataTypeOf(int32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::kF32: return kFloat;
    case DType::kF64: return kDouble;
    case DType::kF16: return kHalf;
    case DType::kBF16: return kBFloat16;
    default: return Unsupported("a convolution of integers on a GPU");
  }
}

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
  int type = kFloat;
  TensorSpec first, second, result;
  std::vector<int64_t> stride, padding, dilation;
  std::optional<TensorSpec> bias, residual;
  bool relu = false;
  bool tf32 = false;
  int64_t alignment = 16;
  Algorithm algorithm;

  std::string Key(const void* handle) const {
    const auto text = [](const TensorSpec& t) {
      return absl::StrCat(absl::StrJoin(t.sizes, ","), "/", absl::StrJoin(t.strides, ","));
    };
    return absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(handle)), " ", op, " ", type, " ", text(first), " ",
                        text(second), " ", text(result), " ", absl::StrJoin(stride, ","), " ",
                        absl::StrJoin(padding, ","), " ", absl::StrJoin(dilation, ","), " ", bias ? text(*bias) : "",
                        " ", residual ? text(*residual) : "", " ", relu, tf32, " ", alignment, " ", algorithm.rank, " ",
                        algorithm.stored);
  }
};

// A dimension of one element before the last: a 1-d convolution is a 2-d one.
void AddHeight(TensorSpec& t) {
  t.sizes.insert(t.sizes.begin() + 2, 1);
  t.strides.insert(t.strides.begin() + 2, t.sizes[3] * t.strides[2]);
}

absl::StatusOr<Problem> ProblemOf(const CallSpec& call) {
  Problem p;
  ASSIGN_OR_RETURN(p.type, DataTypeOf(call.result.dtype));
  p.op = call.op;
  p.first = call.operands[0], p.second = call.operands[1], p.result = call.result;
  p.stride = call.stride, p.padding = call.padding, p.dilation = call.dilation;
  p.tf32 = p.type == kFloat && g_allow_tf32;
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

// A plan that is ready to run, and what it was made of.
struct Plan {
  explicit Plan(const cudnn::Api& api) : plan(api, cudnn::kExecutionPlan) {}
  Descriptor plan;
  CudnnChoice choice;
};

// Where plans are made: on the device of a handle, or for one that is only described.
struct Place {
  void* handle = nullptr;
  const Descriptor* device = nullptr;
};

class Builder {
 public:
  Builder(const cudnn::Api& api, const Place& place, const Problem& problem) : api_(api), place_(place), p_(problem) {}

  absl::StatusOr<std::shared_ptr<const Plan>> Run() {
    if (std::shared_ptr<const Plan> plan = StoredPlan()) return plan;
    RETURN_IF_ERROR(Describe());
    Descriptor graph(api_, cudnn::kOperationGraph);
    std::vector<void*> operations;
    for (const Descriptor& operation : operations_) operations.push_back(operation.raw());
    if (place_.device == nullptr) graph.Set(800, cudnn::kHandleValue, 1, &place_.handle);
    graph.Set(801, cudnn::kDescriptorValue, static_cast<int64_t>(operations.size()), operations.data());
    RETURN_IF_ERROR(graph.Finalize("a graph of operations"));
    for (const bool compiled : {false, true}) {
      for (const int mode : {kModeA, kModeFallback}) {
        if (std::shared_ptr<const Plan> plan = FirstPlan(graph, mode, compiled)) return plan;
      }
    }
    return Unsupported(absl::StrCat("cuDNN has no engine for a convolution of [", absl::StrJoin(p_.first.sizes, ", "),
                                    "] and [", absl::StrJoin(p_.second.sizes, ", "), "]"));
  }

 private:
  // The operations, each finalized, in order: the convolution, then what follows it on values that have no memory.
  absl::Status Describe() {
    const bool epilogue = p_.bias || p_.residual || p_.relu;
    ASSIGN_OR_RETURN(const void* first, Tensor(kFirst, p_.first, p_.type));
    ASSIGN_OR_RETURN(const void* second, Tensor(kSecond, p_.second, p_.type));
    ASSIGN_OR_RETURN(const void* now, epilogue ? Virtual() : Tensor(kResult, p_.result, p_.type));
    RETURN_IF_ERROR(Convolution(first, second, now));
    int left = int{p_.residual.has_value()} + int{p_.bias.has_value()} + int{p_.relu};
    const auto next = [&]() { return --left > 0 ? Virtual() : Tensor(kResult, p_.result, p_.type); };
    if (p_.residual) {
      ASSIGN_OR_RETURN(const void* other, Tensor(kOther, *p_.residual, p_.type));
      ASSIGN_OR_RETURN(const void* to, next());
      RETURN_IF_ERROR(Pointwise(kAdd, now, other, to));
      now = to;
    }
    if (p_.bias) {
      ASSIGN_OR_RETURN(const void* bias, Tensor(kBias, *p_.bias, p_.type));
      ASSIGN_OR_RETURN(const void* to, next());
      RETURN_IF_ERROR(Pointwise(kAdd, now, bias, to));
      now = to;
    }
    if (!p_.relu) return absl::OkStatus();
    ASSIGN_OR_RETURN(const void* to, next());
    return Pointwise(kRelu, now, nullptr, to);
  }

  int ComputeType() const { return p_.type == kDouble ? kDouble : kFloat; }

  absl::StatusOr<const void*> Tensor(int64_t uid, const TensorSpec& t, int type, bool is_virtual = false) {
    Descriptor tensor(api_, cudnn::kTensor);
    tensor.SetEnum(901, cudnn::kDataTypeValue, type);
    tensor.SetInts(902, t.sizes);
    tensor.SetInts(903, t.strides);
    tensor.SetInt(906, uid);
    tensor.SetInt(900, p_.alignment);
    tensor.SetFlag(907, is_virtual);
    RETURN_IF_ERROR(tensor.Finalize("a tensor"));
    const void* raw = tensor.raw();
    parts_.push_back(std::move(tensor));
    return raw;
  }
  absl::StatusOr<const void*> Virtual() { return Tensor(next_virtual_++, p_.result, ComputeType(), true); }

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
    const bool wide = p_.type == kDouble;
    const cudnn::ValueType scalar = wide ? cudnn::kDoubleValue : cudnn::kFloatValue;
    operation.Set(form.attributes[0], scalar, 1, wide ? static_cast<const void*>(&one) : &one_float);
    operation.Set(form.attributes[1], scalar, 1, wide ? static_cast<const void*>(&zero) : &zero_float);
    operation.SetPart(form.attributes[2], geometry);
    operation.Set(form.attributes[3], cudnn::kDescriptorValue, 1, &first);
    operation.Set(form.attributes[4], cudnn::kDescriptorValue, 1, &second);
    operation.Set(form.attributes[5], cudnn::kDescriptorValue, 1, &result);
    parts_.push_back(std::move(geometry));
    RETURN_IF_ERROR(operation.Finalize("a convolution"));
    operations_.push_back(std::move(operation));
    return absl::OkStatus();
  }

  absl::Status Pointwise(int mode, const void* x, const void* other, const void* y) {
    Descriptor kind(api_, cudnn::kPointwise), operation(api_, cudnn::kPointwiseOperation);
    kind.SetEnum(0, cudnn::kPointwiseModeValue, mode);
    kind.SetEnum(1, cudnn::kDataTypeValue, ComputeType());
    RETURN_IF_ERROR(kind.Finalize("an elementwise operator"));
    operation.SetPart(750, kind);
    operation.Set(751, cudnn::kDescriptorValue, 1, &x);
    if (other != nullptr) operation.Set(752, cudnn::kDescriptorValue, 1, &other);
    operation.Set(753, cudnn::kDescriptorValue, 1, &y);
    parts_.push_back(std::move(kind));
    RETURN_IF_ERROR(operation.Finalize("an elementwise operation"));
    operations_.push_back(std::move(operation));
    return absl::OkStatus();
  }

  // An artifact's own; null when it has none, or one that does not hold here. Whose operands may not be rounded takes
  // none: it does not say whether it rounds.
  std::shared_ptr<const Plan> StoredPlan() const {
    const std::string& text = p_.algorithm.stored;
    if (text.empty() || place_.device != nullptr || (p_.type == kFloat && !p_.tf32)) return nullptr;
    auto made = std::make_shared<Plan>(api_);
    made->plan.Set(400, cudnn::kHandleValue, 1, &place_.handle);
    made->plan.Set(405, cudnn::kTextValue, static_cast<int64_t>(text.size()), text.data());
    return Finalized(std::move(made));
  }

  // The first proposal of this mode that can be made ready, or the one behind as many as the call's algorithm passes
  // over; null without.
  std::shared_ptr<const Plan> FirstPlan(const Descriptor& graph, int mode, bool compiled) {
    Descriptor heuristics(api_, cudnn::kHeuristics);
    heuristics.SetPart(201, graph);
    heuristics.SetEnum(200, cudnn::kHeuristicsModeValue, mode);
    if (place_.device != nullptr) heuristics.SetPart(204, *place_.device);
    int64_t count = 0;
    if (!heuristics.Finalize("heuristics").ok() ||
        api_.get(heuristics.raw(), 202, cudnn::kDescriptorValue, 0, &count, nullptr) != 0) {
      return nullptr;
    }
    std::vector<Descriptor> configs;
    std::vector<void*> raw;
    for (int64_t i = 0; i < count; ++i) {
      configs.emplace_back(api_, cudnn::kEngineConfig);
      raw.push_back(configs.back().raw());
    }
    if (api_.get(heuristics.raw(), 202, cudnn::kDescriptorValue, count, &count, raw.data()) != 0) return nullptr;
    for (int64_t i = 0; i < count; ++i) {
      CudnnChoice choice;
      choice.compiled = compiled;
      if (!Acceptable(configs[static_cast<size_t>(i)], &choice)) continue;
      std::shared_ptr<const Plan> plan = MakePlan(configs[static_cast<size_t>(i)], choice);
      if (plan != nullptr && (compiled || passed_over_++ >= p_.algorithm.rank)) return plan;
    }
    return nullptr;
  }

  bool HasNote(void* engine, int attribute, cudnn::ValueType type, int note) const {
    int notes[16];
    int64_t count = 0;
    if (api_.get(engine, attribute, type, 16, &count, notes) != 0) return false;
    return std::find(notes, notes + count, note) != notes + count;
  }

  // An engine that starts NVRTC costs more than a first call may; one that rounds float32 needs leave.
  bool Acceptable(const Descriptor& config, CudnnChoice* choice) const {
    Descriptor engine(api_, cudnn::kEngine);
    void* raw = engine.raw();
    int64_t count = 0;
    if (api_.get(config.raw(), 300, cudnn::kDescriptorValue, 1, &count, &raw) != 0) return false;
    if (HasNote(raw, 1305, cudnn::kBehaviorNoteValue, kRuntimeCompilation) != choice->compiled) return false;
    api_.get(raw, 1301, cudnn::kIntValue, 1, &count, &choice->engine);
    if (p_.type != kFloat || p_.tf32) return true;
    return !HasNote(raw, 1303, cudnn::kNumericalNoteValue, kTensorCore) &&
           !HasNote(raw, 1303, cudnn::kNumericalNoteValue, kDownConvert);
  }

  std::shared_ptr<const Plan> MakePlan(const Descriptor& config, const CudnnChoice& choice) {
    auto made = std::make_shared<Plan>(api_);
    made->choice = choice;
    if (place_.device == nullptr) {
      made->plan.Set(400, cudnn::kHandleValue, 1, &place_.handle);
    } else {
      made->plan.SetPart(407, *place_.device);
    }
    made->plan.SetPart(401, config);
    return Finalized(std::move(made));
  }

  std::shared_ptr<const Plan> Finalized(std::shared_ptr<Plan> made) const {
    int64_t count = 0;
    if (!made->plan.Finalize("a plan").ok() ||
        api_.get(made->plan.raw(), 402, cudnn::kIntValue, 1, &count, &made->choice.workspace) != 0) {
      return nullptr;
    }
    return made->choice.workspace <= kMostWorkspace ? made : nullptr;
  }

  const cudnn::Api& api_;
  const Place place_;
  const Problem& p_;
  int passed_over_ = 0;  // plans that could have been made
  int64_t next_virtual_ = 100;
  std::vector<Descriptor> parts_, operations_;
};

// Equal calls have one plan in a process.
absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const cudnn::Api& api, cudnn::Handle& handle,
                                                    const Problem& problem) {
  static std::mutex mutex;
  static auto& plans = *new std::map<std::string, std::shared_ptr<const Plan>>();
  const std::string key = problem.Key(handle.handle);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = plans.find(key); found != plans.end()) return found->second;
  }
  absl::StatusOr<std::shared_ptr<const Plan>> made;
  {
    std::lock_guard<std::mutex> lock(handle.mutex);
    made = Builder(api, Place{handle.handle, nullptr}, problem).Run();
  }
  if (!made.ok()) return made.status();
  std::lock_guard<std::mutex> lock(mutex);
  return plans.emplace(key, *made).first->second;
}

class CudnnConv : public PreparedCall {
 public:
  CudnnConv(const cudnn::Api& api, cudnn::Handle& handle, const CallSpec& call, Problem problem,
            std::shared_ptr<const Plan> plan)
      : api_(api), handle_(handle), call_(call), problem_(std::move(problem)), plan_(std::move(plan)) {}

  absl::string_view provider() const override { return "cudnn"; }
  std::string algorithm() const override {
    std::string text(kMostPlanBytes, 0);
    int64_t size = 0;
    if (api_.get(plan_->plan.raw(), 405, cudnn::kTextValue, kMostPlanBytes, &size, text.data()) != 0) return "";
    text.resize(static_cast<size_t>(std::clamp<int64_t>(size, 0, kMostPlanBytes)));
    while (!text.empty() && text.back() == 0) text.pop_back();
    return WriteAlgorithm("cudnn", api_.version(), call_, text);
  }
  int64_t scratch_bytes() const override { return plan_->choice.workspace; }
  std::string pack_key(int) const override { return ""; }
  int64_t packed_bytes(int) const override { return 0; }
  absl::Status Pack(int, const void*, void*) const override { return absl::OkStatus(); }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    std::vector<int64_t> uids = {kFirst, kSecond, kResult};
    std::vector<const void*> pointers = {addresses.operands[0], addresses.operands[1], addresses.result};
    size_t step = 0;
    for (const auto& [has, uid] :
         {std::pair{problem_.bias.has_value(), kBias}, {problem_.residual.has_value(), kOther}}) {
      if (!has) continue;
      uids.push_back(uid);
      pointers.push_back(addresses.epilogue[step++]);
    }
    std::shared_ptr<const Plan> plan = plan_;
    const bool aligned = std::all_of(pointers.begin(), pointers.end(),
                                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
    if (!aligned) {
      ASSIGN_OR_RETURN(plan, Unaligned());
    }
    return Execute(*plan, uids, pointers, addresses);
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

  absl::Status Execute(const Plan& plan, const std::vector<int64_t>& uids, const std::vector<const void*>& pointers,
                       const preheat_lib_addresses& addresses) const {
    Descriptor pack(api_, cudnn::kVariantPack);
    pack.SetInts(1000, uids);
    pack.Set(1001, cudnn::kPointerValue, static_cast<int64_t>(pointers.size()), pointers.data());
    pack.Set(1003, cudnn::kPointerValue, 1, &addresses.scratch);
    RETURN_IF_ERROR(pack.Finalize("addresses"));
    std::lock_guard<std::mutex> lock(handle_.mutex);
    int result = api_.set_stream(handle_.handle, addresses.stream);
    if (result == 0) result = api_.execute(handle_.handle, plan.plan.raw(), pack.raw());
    if (result == 0) return absl::OkStatus();
    return MakeError(absl::StatusCode::kInternal, {.kind = "cudnn_error",
                                                   .message = absl::StrCat("cuDNN: a convolution gave status ", result),
                                                   .where = "",
                                                   .fix = ""});
  }

  const cudnn::Api& api_;
  cudnn::Handle& handle_;
  const CallSpec call_;
  const Problem problem_;
  const std::shared_ptr<const Plan> plan_;
};

// A convolution without results or products.
class Nothing : public PreparedCall {
 public:
  absl::string_view provider() const override { return "cudnn"; }
  int64_t scratch_bytes() const override { return 0; }
  std::string pack_key(int) const override { return ""; }
  int64_t packed_bytes(int) const override { return 0; }
  absl::Status Pack(int, const void*, void*) const override { return absl::OkStatus(); }
  absl::Status Run(const preheat_lib_addresses&) const override { return absl::OkStatus(); }
};

}  // namespace

void AllowTf32InConvolutions(bool allow) { g_allow_tf32 = allow; }

absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCudnn(const CallSpec& call) {
  if (call.result.elements() == 0) return std::make_unique<Nothing>();
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

absl::StatusOr<CudnnChoice> ChooseCudnn(const CallSpec& call, absl::string_view device) {
  ASSIGN_OR_RETURN(Problem problem, ProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  Descriptor described(*api, cudnn::kDeviceProperties);
  described.Set(2702, cudnn::kTextValue, static_cast<int64_t>(device.size()), device.data());
  RETURN_IF_ERROR(described.Finalize("a device's description"));
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, Builder(*api, Place{nullptr, &described}, problem).Run());
  return plan->choice;
}

}  // namespace preheat::library
