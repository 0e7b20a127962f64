#include "kernels/library/cuda/cudnn_graph.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::library::cudnn {
namespace {

constexpr int64_t kMostWorkspace = int64_t{256} << 20, kMostPlanBytes = int64_t{1} << 20;
constexpr int kModeFallback = 2, kModeA = 3;                               // of heuristics
constexpr int kTensorCore = 0, kDownConvert = 1, kRuntimeCompilation = 0;  // notes

bool HasNote(const Api& api, void* engine, int attribute, ValueType type, int note) {
  int notes[16];
  int64_t count = 0;
  if (api.get(engine, attribute, type, 16, &count, notes) != 0) return false;
  return std::find(notes, notes + count, note) != notes + count;
}

std::shared_ptr<Plan> PlanAt(const Api& api, const Place& place) {
  auto made = std::make_shared<Plan>(api);
  if (place.device == nullptr) {
    made->plan.Set(400, kHandleValue, 1, &place.handle);
  } else {
    made->plan.SetPart(407, *place.device);
  }
  return made;
}

std::shared_ptr<const Plan> Finalized(const Api& api, std::shared_ptr<Plan> made) {
  int64_t count = 0;
  if (!made->plan.Finalize("a plan").ok() ||
      api.get(made->plan.raw(), 402, kIntValue, 1, &count, &made->choice.workspace) != 0) {
    return nullptr;
  }
  return made->choice.workspace <= kMostWorkspace ? made : nullptr;
}

// Looks through what the heuristics propose.
class Search {
 public:
  Search(const Api& api, const Place& place, const Wish& wish) : api_(api), place_(place), wish_(wish) {}

  // The first proposal of this mode that can be made ready, or the one behind as many as are passed over; null without.
  std::shared_ptr<const Plan> First(const Descriptor& graph, int mode, bool compiled) {
    Descriptor heuristics(api_, kHeuristics);
    heuristics.SetPart(201, graph);
    heuristics.SetEnum(200, kHeuristicsModeValue, mode);
    if (place_.device != nullptr) heuristics.SetPart(204, *place_.device);
    int64_t count = 0;
    if (!heuristics.Finalize("heuristics").ok() ||
        api_.get(heuristics.raw(), 202, kDescriptorValue, 0, &count, nullptr) != 0) {
      return nullptr;
    }
    std::vector<Descriptor> configs;
    std::vector<void*> raw;
    for (int64_t i = 0; i < count; ++i) {
      configs.emplace_back(api_, kEngineConfig);
      raw.push_back(configs.back().raw());
    }
    if (api_.get(heuristics.raw(), 202, kDescriptorValue, count, &count, raw.data()) != 0) return nullptr;
    for (int64_t i = 0; i < count; ++i) {
      Choice choice;
      choice.compiled = compiled;
      if (!Acceptable(configs[static_cast<size_t>(i)], &choice)) continue;
      std::shared_ptr<const Plan> plan = Make(configs[static_cast<size_t>(i)], choice);
      if (plan != nullptr && (compiled || passed_over_++ >= wish_.algorithm.rank)) return plan;
    }
    return nullptr;
  }

 private:
  // An engine that starts NVRTC costs more than a first call may; one that rounds float32 needs leave.
  bool Acceptable(const Descriptor& config, Choice* choice) const {
    Descriptor engine(api_, kEngine);
    void* raw = engine.raw();
    int64_t count = 0;
    if (api_.get(config.raw(), 300, kDescriptorValue, 1, &count, &raw) != 0) return false;
    if (HasNote(api_, raw, 1305, kBehaviorNoteValue, kRuntimeCompilation) != choice->compiled) return false;
    api_.get(raw, 1301, kIntValue, 1, &count, &choice->engine);
    return !wish_.exact_float || (!HasNote(api_, raw, 1303, kNumericalNoteValue, kTensorCore) &&
                                  !HasNote(api_, raw, 1303, kNumericalNoteValue, kDownConvert));
  }

  std::shared_ptr<const Plan> Make(const Descriptor& config, const Choice& choice) const {
    std::shared_ptr<Plan> made = PlanAt(api_, place_);
    made->choice = choice;
    made->plan.SetPart(401, config);
    return Finalized(api_, std::move(made));
  }

  const Api& api_;
  const Place& place_;
  const Wish& wish_;
  int passed_over_ = 0;  // plans that could have been made
};

}  // namespace

absl::Status Unsupported(std::string message) {
  return MakeError(absl::StatusCode::kUnimplemented, {.kind = "unsupported_library_call",
                                                      .message = std::move(message),
                                                      .where = "",
                                                      .fix = "exclude the operator, so that torch runs it"});
}

absl::StatusOr<DataType> DataTypeOf(int32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::kF32: return kFloat;
    case DType::kF64: return kDouble;
    case DType::kF16: return kHalf;
    case DType::kBF16: return kBFloat16;
    default: return Unsupported("cuDNN on integers");
  }
}

absl::StatusOr<Descriptor> DescribeDevice(const Api& api, absl::string_view json) {
  Descriptor described(api, kDeviceProperties);
  described.Set(2702, kTextValue, static_cast<int64_t>(json.size()), json.data());
  RETURN_IF_ERROR(described.Finalize("a device's description"));
  return described;
}

absl::StatusOr<Graph::Tensor> Graph::Keep(Descriptor tensor) {
  RETURN_IF_ERROR(tensor.Finalize("a tensor"));
  parts_.push_back(std::move(tensor));
  return parts_.back().raw();
}

absl::StatusOr<Graph::Tensor> Graph::InMemory(int64_t uid, const TensorSpec& t, DataType type, int64_t alignment) {
  Descriptor tensor(api_, kTensor);
  tensor.SetEnum(901, kDataTypeValue, type);
  tensor.SetInts(902, t.sizes);
  tensor.SetInts(903, t.strides);
  tensor.SetInt(906, uid);
  tensor.SetInt(900, alignment);
  tensor.SetFlag(907, false);
  return Keep(std::move(tensor));
}

absl::StatusOr<Graph::Tensor> Graph::Virtual(const TensorSpec& like, DataType type) {
  std::vector<int64_t> strides = like.strides;
  if (strides.empty()) {
    strides.assign(like.sizes.size(), 1);
    for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * like.sizes[d];
  }
  Descriptor tensor(api_, kTensor);
  tensor.SetEnum(901, kDataTypeValue, type);
  tensor.SetInts(902, like.sizes);
  tensor.SetInts(903, strides);
  tensor.SetInt(906, next_virtual_++);
  tensor.SetInt(900, 16);
  tensor.SetFlag(907, true);
  return Keep(std::move(tensor));
}

absl::StatusOr<Graph::Tensor> Graph::Number(int64_t uid) {
  Descriptor tensor(api_, kTensor);
  tensor.SetEnum(901, kDataTypeValue, kFloat);
  tensor.SetInts(902, {1, 1, 1, 1});
  tensor.SetInts(903, {1, 1, 1, 1});
  tensor.SetInt(906, uid);
  tensor.SetInt(900, 16);
  tensor.SetFlag(907, false);
  tensor.SetFlag(908, true);
  return Keep(std::move(tensor));
}

absl::Status Graph::Add(Descriptor operation, std::vector<Descriptor> parts, absl::string_view what) {
  for (Descriptor& part : parts) parts_.push_back(std::move(part));
  RETURN_IF_ERROR(operation.Finalize(what));
  operations_.push_back(std::move(operation));
  return absl::OkStatus();
}

absl::Status Graph::AddKind(Descriptor kind, int attribute, Descriptor operation, absl::string_view what) {
  RETURN_IF_ERROR(kind.Finalize(what));
  operation.SetPart(attribute, kind);
  std::vector<Descriptor> parts;
  parts.push_back(std::move(kind));
  return Add(std::move(operation), std::move(parts), what);
}

absl::Status Graph::Pointwise(PointwiseMode mode, Tensor x, Tensor y, const PointwiseArgs& args) {
  Descriptor kind(api_, kPointwise), operation(api_, kPointwiseOperation);
  kind.SetEnum(0, kPointwiseModeValue, mode);
  kind.SetEnum(1, kDataTypeValue, args.compute);
  if (args.axis >= 0) kind.SetInt(9, args.axis);
  operation.Set(751, kDescriptorValue, 1, &x);
  if (args.other != nullptr) operation.Set(752, kDescriptorValue, 1, &args.other);
  operation.Set(753, kDescriptorValue, 1, &y);
  if (args.condition != nullptr) operation.Set(758, kDescriptorValue, 1, &args.condition);
  return AddKind(std::move(kind), 750, std::move(operation), "an elementwise operation");
}

absl::Status Graph::MatMul(Tensor a, Tensor b, Tensor c) {
  Descriptor kind(api_, kMatMul), operation(api_, kMatMulOperation);
  kind.SetEnum(1500, kDataTypeValue, kFloat);
  operation.Set(1520, kDescriptorValue, 1, &a);
  operation.Set(1521, kDescriptorValue, 1, &b);
  operation.Set(1522, kDescriptorValue, 1, &c);
  return AddKind(std::move(kind), 1523, std::move(operation), "a product");
}

absl::Status Graph::Reduce(ReductionMode mode, Tensor x, Tensor y) {
  Descriptor kind(api_, kReduction), operation(api_, kReductionOperation);
  kind.SetEnum(1600, kReductionModeValue, mode);
  kind.SetEnum(1601, kDataTypeValue, kFloat);
  operation.Set(1610, kDescriptorValue, 1, &x);
  operation.Set(1611, kDescriptorValue, 1, &y);
  return AddKind(std::move(kind), 1612, std::move(operation), "a reduction");
}

absl::Status Graph::Reshape(Tensor x, Tensor y) {
  Descriptor operation(api_, kReshapeOperation);
  operation.Set(2200, kDescriptorValue, 1, &x);
  operation.Set(2201, kDescriptorValue, 1, &y);
  return Add(std::move(operation), {}, "a reshape");
}

absl::StatusOr<std::shared_ptr<const Plan>> Graph::MakePlan(const Place& place, const Wish& wish) const {
  Descriptor graph(api_, kOperationGraph);
  std::vector<void*> operations;
  for (const Descriptor& operation : operations_) operations.push_back(operation.raw());
  if (place.device == nullptr) graph.Set(800, kHandleValue, 1, &place.handle);
  graph.Set(801, kDescriptorValue, static_cast<int64_t>(operations.size()), operations.data());
  RETURN_IF_ERROR(graph.Finalize("a graph of operations"));
  Search search(api_, place, wish);
  for (const bool compiled : {false, true}) {
    for (const int mode : {kModeA, kModeFallback}) {
      if (std::shared_ptr<const Plan> plan = search.First(graph, mode, compiled)) return plan;
    }
  }
  return Unsupported(absl::StrCat("cuDNN has no engine for ", wish.what));
}

std::shared_ptr<const Plan> RestorePlan(const Api& api, const Place& place, const std::string& bytes) {
  std::shared_ptr<Plan> made = PlanAt(api, place);
  made->plan.Set(405, kTextValue, static_cast<int64_t>(bytes.size()), bytes.data());
  return Finalized(api, std::move(made));
}

std::string Serialize(const Api& api, const Plan& plan) {
  std::string text(kMostPlanBytes, 0);
  int64_t size = 0;
  if (api.get(plan.plan.raw(), 405, kTextValue, kMostPlanBytes, &size, text.data()) != 0) return "";
  text.resize(static_cast<size_t>(std::clamp<int64_t>(size, 0, kMostPlanBytes)));
  while (!text.empty() && text.back() == 0) text.pop_back();
  return text;
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanOnce(
    Handle& handle, const std::string& problem,
    const std::function<absl::StatusOr<std::shared_ptr<const Plan>>(const Place& place)>& make) {
  static std::mutex mutex;
  static auto& plans = *new std::map<std::pair<void*, std::string>, std::shared_ptr<const Plan>>();
  const std::pair<void*, std::string> key(handle.handle, problem);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = plans.find(key); found != plans.end()) return found->second;
  }
  absl::StatusOr<std::shared_ptr<const Plan>> made;
  {
    std::lock_guard<std::mutex> lock(handle.mutex);
    made = make(Place{handle.handle, nullptr});
  }
  if (!made.ok()) return made.status();
  std::lock_guard<std::mutex> lock(mutex);
  return plans.emplace(key, *made).first->second;
}

absl::Status Execute(const Api& api, Handle& handle, const Plan& plan, const Addresses& addresses, void* workspace,
                     void* stream, absl::string_view what) {
  Descriptor pack(api, kVariantPack);
  pack.SetInts(1000, addresses.uids);
  pack.Set(1001, kPointerValue, static_cast<int64_t>(addresses.pointers.size()), addresses.pointers.data());
  pack.Set(1003, kPointerValue, 1, &workspace);
  RETURN_IF_ERROR(pack.Finalize("addresses"));
  std::lock_guard<std::mutex> lock(handle.mutex);
  int result = api.set_stream(handle.handle, stream);
  if (result == 0) result = api.execute(handle.handle, plan.plan.raw(), pack.raw());
  if (result == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, {.kind = "cudnn_error",
                                                 .message = absl::StrCat("cuDNN: ", what, " gave status ", result),
                                                 .where = "",
                                                 .fix = ""});
}

}  // namespace preheat::library::cudnn
