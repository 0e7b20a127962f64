#ifndef PREHEAT_CLIENT_TORCH_PYTHON_OBJECTS_H_
#define PREHEAT_CLIENT_TORCH_PYTHON_OBJECTS_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

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
__attribute__((weak)) int PyGILState_Ensure();
__attribute__((weak)) void PyGILState_Release(int);
__attribute__((weak)) int Py_IsInitialized();
__attribute__((weak)) void Py_IncRef(_object*);
__attribute__((weak)) void Py_DecRef(_object*);
}

namespace preheat {

// Tensors as Python holds them. Everything here wants the GIL.

// False where libtorch_python is not loaded: nothing below may be called then.
bool HavePythonTensors();

// The tensors of a Python list: null for what is no plain tensor or parameter.
std::vector<const at::Tensor*> TensorsOf(_object* list);

// A new Python list.
_object* ListOf(const std::vector<at::Tensor>& tensors);

_object* None();

}  // namespace preheat

#endif  // PREHEAT_CLIENT_TORCH_PYTHON_OBJECTS_H_
