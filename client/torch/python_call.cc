#include "client/torch/python_call.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <vector>

#include "compiler/reference/tensors.h"

// The part of Python's stable ABI that is used here. Weak: a process without Python has none of it and does not call.
extern "C" {
struct _object {
  intptr_t references;
  void* type;
};
__attribute__((weak)) intptr_t PyList_Size(_object*);
__attribute__((weak)) _object* PyList_GetItem(_object*, intptr_t);  // borrowed
__attribute__((weak)) _object* PyList_New(intptr_t);
__attribute__((weak)) int PyList_SetItem(_object*, intptr_t, _object*);  // takes the reference
__attribute__((weak)) _object* Py_BuildValue(const char*, ...);
__attribute__((weak)) void* PyEval_SaveThread();
__attribute__((weak)) void PyEval_RestoreThread(void*);
}

namespace preheat {
namespace {

constexpr uintptr_t kAlignment = 16;  // of inputs: what programs promise

// A tensor as Python holds it, up to what is read here (torch/csrc/autograd/python_variable.h of the torch that this
// library is built for, and refuses others).
struct PythonTensor {
  _object head;
  at::Tensor tensor;
};

// What libtorch_python, which is not linked, has: the types of plain tensors, and how one becomes an object.
struct TorchPython {
  void* const* tensor_type = nullptr;
  void* const* parameter_type = nullptr;
  _object* (*wrap)(const at::TensorBase&) = nullptr;

  TorchPython() {
    void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return;
    tensor_type = static_cast<void* const*>(dlsym(library, "THPVariableClass"));
    parameter_type = static_cast<void* const*>(dlsym(library, "ParameterClass"));
    *reinterpret_cast<void**>(&wrap) = dlsym(library, "_Z16THPVariable_WrapRKN2at10TensorBaseE");
  }
  bool ok() const { return tensor_type != nullptr && parameter_type != nullptr && wrap != nullptr; }
};

const TorchPython& Torch() {
  static const TorchPython& torch = *new TorchPython();
  return torch;
}

thread_local preheat_status* t_status = nullptr;

_object* None() { return Py_BuildValue(""); }

// The address of the tensor, or null when it is not what the step wants.
bool Fits(const _object* object, const preheat_torch_input& want, const at::Device& device, void** address) {
  if (object->type != *Torch().tensor_type && object->type != *Torch().parameter_type) return false;
  const at::Tensor& t = reinterpret_cast<const PythonTensor*>(object)->tensor;
  if (t.device() != device || t.is_neg() || t.is_conj()) return false;
  if (t.scalar_type() != reference::ToTorch(static_cast<ir::DType>(want.dtype))) return false;
  if (t.sizes() != at::IntArrayRef(want.sizes, want.rank) || t.strides() != at::IntArrayRef(want.strides, want.rank))
    return false;
  *address = const_cast<void*>(t.const_data_ptr());
  return reinterpret_cast<uintptr_t>(*address) % kAlignment == 0;
}

_object* Call(const preheat_torch_step& step, _object* arguments) {
  const bool gpu = step.device_type == PREHEAT_CUDA;
  const at::Device device =
      gpu ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(step.device_index)) : at::Device(at::kCPU);
  std::vector<void*> addresses(step.num_inputs + step.num_outputs);
  const intptr_t size = PyList_Size(arguments);
  for (size_t i = 0; i < step.num_inputs; ++i) {
    const preheat_torch_input& input = step.inputs[i];
    addresses[i] = input.address;
    if (input.argument < 0) continue;
    if (input.argument >= size || !Fits(PyList_GetItem(arguments, input.argument), input, device, &addresses[i]))
      return None();
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(step.num_outputs);
  for (size_t i = 0; i < step.num_outputs; ++i) {
    const preheat_torch_output& out = step.outputs[i];
    const auto options =
        at::TensorOptions().dtype(reference::ToTorch(static_cast<ir::DType>(out.dtype))).device(device);
    outputs.push_back(at::empty_strided({out.sizes, static_cast<size_t>(out.rank)},
                                        {out.strides, static_cast<size_t>(out.rank)}, options));
    addresses[step.num_inputs + i] = outputs.back().data_ptr();
  }
  void* stream = nullptr;
  if (gpu) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    stream = guard.getStreamNativeHandle(guard.getStream(device));
  }
  void* const thread = PyEval_SaveThread();  // extern calls may want it, and whoever waits for the same stream
  t_status = preheat_session_run_raw(step.session, step.symbols, addresses.data(), addresses.data() + step.num_inputs,
                                     nullptr, stream);
  PyEval_RestoreThread(thread);
  if (t_status != nullptr) return None();
  _object* results = PyList_New(static_cast<intptr_t>(outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i)
    PyList_SetItem(results, static_cast<intptr_t>(i), Torch().wrap(outputs[i]));
  return results;
}

}  // namespace

void* CallFromPython(const preheat_torch_step& step, void* arguments) {
  if (!Torch().ok()) return None();
  try {
    return Call(step, static_cast<_object*>(arguments));
  } catch (const std::exception& e) {
    t_status = preheat_status_new("RESOURCE_EXHAUSTED", "out_of_memory", e.what());
    return None();
  }
}

preheat_status* TakeCallStatus() { return std::exchange(t_status, nullptr); }

}  // namespace preheat
