#include "client/torch/run_step.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <optional>
#include <utility>

#include "compiler/reference/tensors.h"

namespace preheat {
namespace {

constexpr uintptr_t kAlignment = 16;  // of inputs: what programs promise

thread_local preheat_status* t_status = nullptr;

// Wrapped by a transform, or by a subclass in C++: its memory is not to be had.
bool IsWrapped(const at::Tensor& t) {
  constexpr c10::DispatchKeySet kWrappers({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                           c10::DispatchKey::Functionalize, c10::DispatchKey::Python});
  return t.key_set().has_any(kWrappers);
}

// Whether a frozen input is and holds what it did when the session took it.
bool Unchanged(const at::Tensor& t, const preheat_torch_watched& known) {
  if (IsWrapped(t) || t.const_data_ptr() != known.address) return false;
  if ((t.is_inference() ? -1 : static_cast<int64_t>(t._version())) != known.version) return false;
  const char* now = static_cast<const char*>(known.address);
  const char* then = static_cast<const char*>(known.samples);
  const size_t bytes = static_cast<size_t>(known.sample_bytes);
  for (int64_t i = 0; i < known.num_samples; ++i, now += known.step, then += bytes) {
    if (std::memcmp(now, then, bytes) != 0) return false;
  }
  return true;
}

// As torch's empty_strided makes it, without the dispatcher. REQUIRES: a GPU is the current device.
at::Tensor NewOutput(const preheat_torch_output& out, const at::Device& device) {
  const at::IntArrayRef sizes(out.sizes, static_cast<size_t>(out.rank));
  const at::IntArrayRef strides(out.strides, static_cast<size_t>(out.rank));
  const at::ScalarType dtype = reference::ToTorch(static_cast<ir::DType>(out.dtype));
  if (device.is_cpu()) return at::detail::empty_strided_cpu(sizes, strides, dtype);
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(at::kCUDA),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype);
}

}  // namespace

at::Device DeviceOf(const preheat_torch_step& step) {
  if (step.device_type != PREHEAT_CUDA) return at::Device(at::kCPU);
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(step.device_index));
}

bool Fits(const at::Tensor& t, const preheat_torch_input& want, const at::Device& device) {
  if (IsWrapped(t) || t.device() != device || t.is_neg() || t.is_conj()) return false;
  if (t.scalar_type() != reference::ToTorch(static_cast<ir::DType>(want.dtype))) return false;
  const size_t rank = static_cast<size_t>(want.rank);
  if (t.sizes() != at::IntArrayRef(want.sizes, rank) || t.strides() != at::IntArrayRef(want.strides, rank))
    return false;
  return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % kAlignment == 0;
}

bool Fits(const std::vector<const at::Tensor*>& arguments, const preheat_torch_step& step) {
  const at::Device device = DeviceOf(step);
  const auto get = [&](int64_t i) {
    return static_cast<size_t>(i) < arguments.size() ? arguments[static_cast<size_t>(i)] : nullptr;
  };
  for (size_t i = 0; i < step.num_inputs; ++i) {
    if (step.inputs[i].argument < 0) continue;
    const at::Tensor* t = get(step.inputs[i].argument);
    if (t == nullptr || !Fits(*t, step.inputs[i], device)) return false;
  }
  for (size_t i = 0; i < step.num_watched; ++i) {
    const at::Tensor* t = get(step.watched[i].argument);
    if (t == nullptr || !Unchanged(*t, step.watched[i])) return false;
  }
  return true;
}

preheat_status* Run(const std::vector<const at::Tensor*>& arguments, const preheat_torch_step& step,
                    std::vector<at::Tensor>& outputs) {
  std::vector<void*> addresses;
  addresses.reserve(step.num_inputs + step.num_outputs);
  for (size_t i = 0; i < step.num_inputs; ++i) {
    const preheat_torch_input& input = step.inputs[i];
    addresses.push_back(input.argument < 0
                            ? input.address
                            : const_cast<void*>(arguments[static_cast<size_t>(input.argument)]->const_data_ptr()));
  }
  const at::Device device = DeviceOf(step);
  const c10::OptionalDeviceGuard guard(device.is_cuda() ? std::optional<at::Device>(device) : std::nullopt);
  outputs.reserve(step.num_outputs);
  for (size_t i = 0; i < step.num_outputs; ++i) {
    outputs.push_back(NewOutput(step.outputs[i], device));
    addresses.push_back(outputs.back().mutable_data_ptr());
  }
  void* stream = nullptr;
  if (device.is_cuda()) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    stream = guard.getStreamNativeHandle(guard.getStream(device));
  }
  return preheat_session_run_raw(step.session, step.symbols, addresses.data(), addresses.data() + step.num_inputs,
                                 nullptr, stream);
}

void SetCallStatus(preheat_status* status) { t_status = status; }
preheat_status* TakeCallStatus() { return std::exchange(t_status, nullptr); }

}  // namespace preheat
