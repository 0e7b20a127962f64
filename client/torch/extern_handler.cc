#include "client/torch/extern_handler.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/torch/read_call.h"
#include "compiler/reference/aten_call.h"
#include "compiler/reference/tensors.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

constexpr size_t kMaxPrepared = 4096;

struct Prepared {
  reference::AtenCall call;
  std::set<int> skipped;
  std::set<int> seeds;  // operands that torch reads on the host, except under capture
};

// The gradient of memory-efficient attention takes its random state as two tensors, in which torch looks by itself.
std::set<int> SeedsOf(const ReadCall& read) {
  std::set<int> seeds;
  if (!absl::StrContains(read.op, "efficient_attention_backward")) return seeds;
  for (const capture::NamedArgument& argument : read.arguments) {
    const auto* value = std::get_if<capture::ValueRef>(&argument.value);
    if (value != nullptr && absl::StartsWith(argument.name, "philox_")) seeds.insert(value->id);
  }
  return seeds;
}

bool IsCapturing(void* stream) {
  using Ask = int (*)(void* stream, int* status);
  static const auto ask = reinterpret_cast<Ask>([] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver != nullptr ? dlsym(driver, "cuStreamIsCapturing") : nullptr;
  }());
  int status = 0;
  return ask != nullptr && ask(stream, &status) == 0 && status != 0;
}

absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(const preheat_extern_call& call) {
  ASSIGN_OR_RETURN(ReadCall read, ReadExternCall(call.call));
  std::vector<ir::DType> results;
  for (size_t i = 0; i < call.num_results; ++i) results.push_back(static_cast<ir::DType>(call.results[i].dtype));
  ASSIGN_OR_RETURN(reference::AtenCall made,
                   reference::AtenCall::Make(read.op, read.arguments, results, /*float64=*/false));
  for (int id : made.Operands()) {
    if (id < 0 || static_cast<size_t>(id) >= call.num_operands) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.kind = "malformed_call", .message = absl::StrCat(read.op, " has no operand ", id)});
    }
  }
  std::set<int> seeds = SeedsOf(read);
  return std::make_shared<const Prepared>(Prepared{std::move(made), std::move(read.skipped), std::move(seeds)});
}

// Calls by their text. Sizes are in the text, so many sizes are many calls: the table starts anew when it is full.
absl::StatusOr<std::shared_ptr<const Prepared>> Lookup(const preheat_extern_call& call) {
  static std::mutex mutex;
  static auto* table = new std::unordered_map<std::string, std::shared_ptr<const Prepared>>();
  const std::string text = call.call;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = table->find(text); found != table->end()) return found->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> prepared, Prepare(call));
  std::lock_guard<std::mutex> lock(mutex);
  if (table->size() >= kMaxPrepared) table->clear();
  table->emplace(text, prepared);
  return prepared;
}

// Flash attention's random state is uint64, which Preheat carries as int64.
bool TakesState(const preheat_extern_call& call) { return std::strstr(call.op, "flash_attention") != nullptr; }
at::Tensor AsState(const at::Tensor& t) { return t.scalar_type() == at::kLong ? t.view(at::kUInt64) : t; }
at::Tensor FromState(const at::Tensor& t) { return t.scalar_type() == at::kUInt64 ? t.view(at::kLong) : t; }

// A copy in the program is none in the plan, and this operator takes only what lies in pairs.
bool TakesPairs(const preheat_extern_call& call) { return std::strstr(call.op, "view_as_complex") != nullptr; }
at::Tensor AsPairs(const at::Tensor& t) {
  return t.dim() > 0 && t.stride(-1) != 1 ? t.clone(at::MemoryFormat::Contiguous) : t;
}

// Strides of dimensions of one element mean nothing to us, but libraries look at them: those of a dense tensor.
std::vector<int64_t> StridesOf(const preheat_tensor& t) {
  std::vector<int64_t> strides(t.strides, t.strides + t.rank);
  for (int32_t d = t.rank - 1; d >= 0; --d) {
    if (t.sizes[d] == 1) strides[d] = d + 1 == t.rank ? 1 : strides[d + 1] * t.sizes[d + 1];
  }
  return strides;
}

// The runtime's memory as a tensor; nothing is copied.
at::Tensor Wrap(const preheat_tensor& t) {
  const at::IntArrayRef sizes(t.sizes, t.rank);
  const std::vector<int64_t> strides = StridesOf(t);
  const at::Device device = t.device_type == PREHEAT_CUDA
                                ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(t.device_index))
                                : at::Device(at::kCPU);
  const auto options = at::TensorOptions().dtype(reference::ToTorch(static_cast<ir::DType>(t.dtype))).device(device);
  if (t.data == nullptr) return at::empty_strided(sizes, strides, options);
  return at::for_blob(t.data, sizes).strides(strides).target_device(device).options(options).make_tensor();
}

// Eager's generator of seeds leaves them on the CPU; as a kernel's argument they reach the GPU without a wait.
void CopyInto(at::Tensor& target, const at::Tensor& result) {
  if (target.is_cuda() && result.is_cpu() && result.dim() == 0) {
    target.fill_(result.item());
  } else {
    target.copy_(result);
  }
}

// Where the call's tensors lie on a GPU: that one. Torch works on its own current stream, which must be the run's.
absl::StatusOr<std::optional<at::Device>> GpuOf(const preheat_extern_call& call) {
  std::optional<at::Device> device;
  for (size_t i = 0; i < call.num_results && !device; ++i) {
    if (call.results[i].device_type != PREHEAT_CUDA) continue;
    device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(call.results[i].device_index));
  }
  if (!device) return device;
  const c10::impl::VirtualGuardImpl gpu(at::kCUDA);
  if (gpu.getStreamNativeHandle(gpu.getStream(*device)) == call.stream) return device;
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "stream_mismatch",
                    .message = absl::StrCat(call.op, " is run by torch, whose current stream is not the run's"),
                    .where = "",
                    .fix = "make the stream torch's current one around the run"});
}

absl::Status Deliver(const preheat_extern_call& call, const std::vector<c10::IValue>& results,
                     const std::set<int>& skipped) {
  size_t next = 0;
  for (size_t i = 0; i < results.size() && next < call.num_results; ++i) {
    if (skipped.count(static_cast<int>(i)) != 0) continue;
    at::Tensor target = Wrap(call.results[next++]);
    if (results[i].isNone()) continue;
    if (!results[i].isTensor())
      return MakeError(absl::StatusCode::kInternal,
                       {.kind = "result_mismatch", .message = absl::StrCat(call.op, " gives no tensor")});
    const at::Tensor result = FromState(results[i].toTensor());
    if (result.sizes() != target.sizes() || result.scalar_type() != target.scalar_type()) {
      return MakeError(
          absl::StatusCode::kInternal,
          {.kind = "result_mismatch",
           .message = absl::StrCat("result ", i, " of ", call.op, " has not the type that the program declares")});
    }
    CopyInto(target, result);
  }
  if (next == call.num_results) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal,
                   {.kind = "result_mismatch", .message = absl::StrCat(call.op, " gives too few results")});
}

}  // namespace

absl::Status RunExternCall(const preheat_extern_call& call) {
  try {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);  // casts stand in the graph
    ASSIGN_OR_RETURN(std::optional<at::Device> gpu, GpuOf(call));
    const c10::OptionalDeviceGuard guard(gpu);
    ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> prepared, Lookup(call));
    const bool states = TakesState(call), reads_seeds = !prepared->seeds.empty() && !IsCapturing(call.stream);
    const auto operand = [&](int id) {
      const at::Tensor tensor = Wrap(call.operands[id]);
      if (reads_seeds && prepared->seeds.count(id) != 0) return c10::IValue(tensor.cpu());
      if (TakesPairs(call)) return c10::IValue(AsPairs(tensor));
      return c10::IValue(states ? AsState(tensor) : tensor);
    };
    const reference::CallScope scope{operand, [](const std::string&) { return int64_t{0}; }};
    ASSIGN_OR_RETURN(std::vector<c10::IValue> results, prepared->call.Run(scope));
    return Deliver(call, results, prepared->skipped);
  } catch (const std::exception& e) {
    return MakeError(absl::StatusCode::kInternal, {.kind = "extern_failed", .message = e.what()});
  }
}

}  // namespace preheat
