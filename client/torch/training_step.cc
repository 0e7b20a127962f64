#include "client/torch/training_step.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/torch/python_objects.h"
#include "client/torch/run_step.h"

namespace preheat {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A reference to the Python object that keeps a step's tables alive.
class Owner {
 public:
  explicit Owner(void* object) : object_(static_cast<_object*>(object)) { Py_IncRef(object_); }
  ~Owner() {
    if (!Py_IsInitialized()) return;  // at the process's end the table goes with everything else
    const int state = PyGILState_Ensure();
    Py_DecRef(object_);
    PyGILState_Release(state);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  _object* const object_;
};

// A result of a graph; undefined for none. A view is no view to autograd, but counts writes together with what it is a
// view of. REQUIRES: grad mode is off.
at::Tensor Made(const preheat_torch_result& result, const std::vector<const at::Tensor*>& arguments,
                const std::vector<at::Tensor>& outputs) {
  if (result.kind == PREHEAT_TORCH_NONE) return {};
  const size_t index = static_cast<size_t>(result.index);
  const at::Tensor& base = result.kind == PREHEAT_TORCH_OUTPUT ? outputs[index] : *arguments[index];
  if (!result.view) return base;
  const size_t rank = static_cast<size_t>(result.rank);
  return base
      .as_strided(at::IntArrayRef(result.sizes, rank), at::IntArrayRef(result.strides, rank),
                  base.storage_offset() + result.offset)
      .detach();
}

[[noreturn]] void ThrowStatus(preheat_status* status) {
  const std::string message = preheat_status_message(status);
  preheat_status_free(status);
  throw std::runtime_error("preheat: a backward graph failed: " + message);
}

class BackwardGraph : public torch::autograd::Node {
 public:
  explicit BackwardGraph(const preheat_torch_training& training) : training_(training), owner_(training.owner) {}

  std::string name() const override { return "PreheatBackward"; }

  void Save(const at::Tensor& t, bool is_result, bool checked) {
    if (checked) {
      checked_.emplace_back(t, is_result);
    } else {
      unchecked_.push_back(t);
    }
  }

  variable_list apply(variable_list&& given) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool again = at::GradMode::is_enabled();  // a graph of this is wanted
    const at::NoGradGuard no_grad;
    variable_list arguments = Arguments(given);
    const preheat_torch_step& step = *training_.backward;
    Fit(step, arguments);
    std::vector<const at::Tensor*> addresses;
    for (const at::Tensor& t : arguments) addresses.push_back(&t);
    std::vector<at::Tensor> outputs;
    if (preheat_status* status = Run(addresses, step, outputs)) ThrowStatus(status);
    variable_list gradients;
    for (size_t i = 0; i < training_.num_arguments; ++i) {
      if (training_.gradients[i].kind == PREHEAT_TORCH_NONE) continue;
      gradients.push_back(Made(training_.gradients[i], addresses, outputs));
    }
    if (again) Refuse(gradients, arguments);
    return gradients;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& saved : checked_) saved.reset_data();
    unchecked_.clear();
    released_ = true;
  }

 private:
  // What was saved, and the gradients; zeros for those that nobody asked for.
  variable_list Arguments(const variable_list& given) {
    TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list arguments;
    for (const SavedVariable& saved : checked_) arguments.push_back(saved.unpack(shared_from_this()));
    for (const at::Tensor& t : unchecked_) arguments.push_back(t);
    for (size_t i = 0; i < given.size(); ++i) {
      const at::Tensor& gradient = given[i];
      arguments.push_back(gradient.defined() ? gradient : input_metadata(static_cast<int>(i)).zeros_like());
    }
    return arguments;
  }

  // Gradients come as their makers liked to lay them out.
  static void Fit(const preheat_torch_step& step, variable_list& arguments) {
    const at::Device device = DeviceOf(step);
    for (size_t i = 0; i < step.num_inputs; ++i) {
      const preheat_torch_input& input = step.inputs[i];
      if (input.argument < 0) continue;
      at::Tensor& t = arguments.at(static_cast<size_t>(input.argument));
      if (Fits(t, input, device)) continue;
      const size_t rank = static_cast<size_t>(input.rank);
      const at::IntArrayRef sizes(input.sizes, rank), strides(input.strides, rank);
      TORCH_CHECK(t.sizes() == sizes, "preheat: a gradient has another shape than its result");
      at::Tensor copy = at::empty_strided(sizes, strides, t.options());
      copy.copy_(t);
      t = std::move(copy);
    }
  }

  // As torch's own compiled graphs do.
  static void Refuse(const variable_list& gradients, const variable_list& arguments) {
    const bool any =
        std::any_of(arguments.begin(), arguments.end(), [](const at::Tensor& t) { return t.requires_grad(); });
    if (!any) return;
    const auto error = std::make_shared<torch::autograd::Error>(
        "torch.compile with aot_autograd does not currently support double backward",
        torch::autograd::collect_next_edges(arguments));
    for (const at::Tensor& gradient : gradients) {
      if (gradient.defined()) torch::autograd::set_history(gradient, error);
    }
  }

  const preheat_torch_training& training_;
  const Owner owner_;
  std::vector<SavedVariable> checked_;
  variable_list unchecked_;
  bool released_ = false;
};

// A node of autograd's that makes the gradients of the returned results, which are its outputs from here on.
std::shared_ptr<BackwardGraph> Connect(const preheat_torch_training& training,
                                       const std::vector<const at::Tensor*>& arguments, variable_list& returned) {
  auto node = std::make_shared<BackwardGraph>(training);
  torch::autograd::edge_list edges;
  for (size_t i = 0; i < training.num_arguments; ++i) {
    if (training.gradients[i].kind == PREHEAT_TORCH_NONE) continue;
    edges.push_back(arguments[i] != nullptr ? torch::autograd::impl::gradient_edge(*arguments[i])
                                            : torch::autograd::Edge());
  }
  node->set_next_edges(std::move(edges));
  for (size_t i = 0; i < returned.size(); ++i) {
    if (training.differentiable[i]) torch::autograd::set_history(returned[i], node);
  }
  return node;
}

// Results with gradients to come. What the backward graph wants is saved before arguments are written to: torch then
// notices at the backward call that a write has changed it.
variable_list Record(const preheat_torch_training& training, const std::vector<const at::Tensor*>& arguments,
                     const std::vector<at::Tensor>& outputs, bool record) {
  const auto make = [&](size_t i) {
    const at::NoGradGuard no_grad;
    return Made(training.results[i], arguments, outputs);
  };
  variable_list returned;
  for (size_t i = 0; i < training.num_returned; ++i) returned.push_back(make(training.num_updated + i));
  if (record) {
    const std::shared_ptr<BackwardGraph> node = Connect(training, arguments, returned);
    for (size_t i = 0; i < training.num_saved; ++i) {
      const at::Tensor saved = make(training.num_updated + training.num_returned + i);
      node->Save(saved, saved.grad_fn() == node, i < training.num_checked);
    }
  }
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < training.num_updated; ++i) arguments[static_cast<size_t>(training.updated[i])]->copy_(make(i));
  return returned;
}

bool AnyRequiresGrad(const std::vector<const at::Tensor*>& arguments) {
  for (const at::Tensor* t : arguments) {
    if (t != nullptr && t->requires_grad()) return true;
  }
  return false;
}

_object* Train(const preheat_torch_training& training, _object* list) {
  const std::vector<const at::Tensor*> arguments = TensorsOf(list);
  if (arguments.size() != training.num_arguments || !Fits(arguments, *training.forward)) return None();
  std::vector<at::Tensor> outputs;
  void* const thread = PyEval_SaveThread();
  preheat_status* status = nullptr;
  try {
    status = Run(arguments, *training.forward, outputs);
  } catch (...) {
    PyEval_RestoreThread(thread);
    throw;
  }
  PyEval_RestoreThread(thread);
  SetCallStatus(status);
  if (status != nullptr) return None();
  const bool record = at::GradMode::is_enabled() && AnyRequiresGrad(arguments);
  return ListOf(Record(training, arguments, outputs, record));
}

}  // namespace

void* TrainFromPython(const preheat_torch_training& training, void* arguments) {
  if (!HavePythonTensors()) return None();
  try {
    return Train(training, static_cast<_object*>(arguments));
  } catch (const std::exception& e) {
    SetCallStatus(preheat_status_new("RESOURCE_EXHAUSTED", "out_of_memory", e.what()));
    return None();
  }
}

}  // namespace preheat
