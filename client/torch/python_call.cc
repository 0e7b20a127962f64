#include "client/torch/python_call.h"

#include <vector>

#include "client/torch/python_objects.h"
#include "client/torch/run_step.h"

namespace preheat {
namespace {

_object* Call(const preheat_torch_step& step, _object* list) {
  const std::vector<const at::Tensor*> arguments = TensorsOf(list);
  if (!Fits(arguments, step)) return None();
  std::vector<at::Tensor> outputs;
  void* const thread = PyEval_SaveThread();  // extern calls may want it, and whoever waits for the same stream
  preheat_status* status = nullptr;
  try {
    status = Run(arguments, step, outputs);
  } catch (...) {
    PyEval_RestoreThread(thread);
    throw;
  }
  PyEval_RestoreThread(thread);
  SetCallStatus(status);
  return status == nullptr ? ListOf(outputs) : None();
}

}  // namespace

void* CallFromPython(const preheat_torch_step& step, void* arguments) {
  if (!HavePythonTensors()) return None();
  try {
    return Call(step, static_cast<_object*>(arguments));
  } catch (const std::exception& e) {
    SetCallStatus(preheat_status_new("RESOURCE_EXHAUSTED", "out_of_memory", e.what()));
    return None();
  }
}

}  // namespace preheat
