#include "client/torch/python_objects.h"

#include <dlfcn.h>

namespace preheat {
namespace {

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

}  // namespace

bool HavePythonTensors() { return Torch().ok(); }

std::vector<const at::Tensor*> TensorsOf(_object* list) {
  std::vector<const at::Tensor*> tensors(static_cast<size_t>(PyList_Size(list)), nullptr);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const _object* object = PyList_GetItem(list, static_cast<intptr_t>(i));
    if (object->type != *Torch().tensor_type && object->type != *Torch().parameter_type) continue;
    tensors[i] = &reinterpret_cast<const PythonTensor*>(object)->tensor;
  }
  return tensors;
}

_object* ListOf(const std::vector<at::Tensor>& tensors) {
  _object* list = PyList_New(static_cast<intptr_t>(tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) PyList_SetItem(list, static_cast<intptr_t>(i), Torch().wrap(tensors[i]));
  return list;
}

_object* None() { return Py_BuildValue(""); }

}  // namespace preheat
