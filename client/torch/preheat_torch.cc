#include "client/torch/preheat_torch.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/torch/extern_handler.h"
#include "client/torch/python_call.h"
#include "client/torch/run_step.h"
#include "client/torch/training_step.h"
#include "compiler/capture/aten_program.h"
#include "compiler/reference/reference.h"
#include "compiler/reference/tensors.h"
#include "compiler/support/error.h"

using preheat::reference::HostTensor;

struct preheat_torch_file {
  std::vector<HostTensor> tensors;
};

namespace {

char* Text(const std::string& message) { return strdup(message.c_str()); }

HostTensor Copy(const preheat_tensor& t) {
  HostTensor out = preheat::reference::MakeStrided(static_cast<preheat::ir::DType>(t.dtype),
                                                   {t.sizes, t.sizes + t.rank}, {t.strides, t.strides + t.rank});
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), t.data, out.bytes.size());
  return out;
}

// Every tensor in the containers, in the order in which they stand.
void Collect(const c10::IValue& value, std::vector<HostTensor>& out) {
  if (value.isTensor()) {
    const at::Tensor tensor = value.toTensor();
    if (tensor.layout() == at::kStrided && preheat::reference::FromTorch(tensor.scalar_type())) {
      out.push_back(preheat::reference::TensorToHost(tensor.cpu()));
    }
  } else if (value.isTuple()) {
    for (const c10::IValue& e : value.toTupleRef().elements()) Collect(e, out);
  } else if (value.isList()) {
    for (const c10::IValue& e : value.toList()) Collect(e, out);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) Collect(entry.value(), out);
  }
}

}  // namespace

uint32_t preheat_torch_abi(void) { return PREHEAT_TORCH_ABI; }
const char* preheat_torch_version(void) { return TORCH_VERSION; }
void preheat_torch_free(void* memory) { std::free(memory); }

preheat_status* preheat_torch_extern(void*, const preheat_extern_call* call) {
  const absl::Status status = preheat::RunExternCall(*call);
  if (status.ok()) return nullptr;
  const preheat::Error error = preheat::GetError(status);
  const std::string message = std::string(call->op) + ": " + error.message;
  return preheat_status_new(preheat::CodeName(status.code()).c_str(), error.kind.c_str(), message.c_str());
}

void* preheat_torch_call(const preheat_torch_step* step, void* arguments) {
  return preheat::CallFromPython(*step, arguments);
}
void* preheat_torch_train(const preheat_torch_training* training, void* arguments) {
  return preheat::TrainFromPython(*training, arguments);
}
preheat_status* preheat_torch_take_status(void) { return preheat::TakeCallStatus(); }

char* preheat_torch_time(const void* program, const preheat_tensor* inputs, size_t num_inputs, int32_t repeat,
                         double* median_ms, double* p99_ms) {
  try {
    std::vector<HostTensor> tensors;
    for (size_t i = 0; i < num_inputs; ++i) tensors.push_back(Copy(inputs[i]));
    auto timed = preheat::reference::TimeReference(*static_cast<const preheat::capture::AtenProgram*>(program), tensors,
                                                   {}, repeat);
    if (!timed.ok()) return Text(std::string(timed.status().message()));
    *median_ms = timed->median_ms;
    *p99_ms = timed->p99_ms;
    return nullptr;
  } catch (const std::exception& e) {
    return Text(e.what());
  }
}

char* preheat_torch_open(const void* bytes, size_t size, preheat_torch_file** out) {
  try {
    const char* begin = static_cast<const char*>(bytes);
    auto file = std::make_unique<preheat_torch_file>();
    Collect(torch::jit::pickle_load({begin, begin + size}), file->tensors);
    *out = file.release();
    return nullptr;
  } catch (const c10::Error& e) {
    return Text(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return Text(e.what());
  }
}

size_t preheat_torch_num_tensors(const preheat_torch_file* file) { return file->tensors.size(); }

preheat_tensor preheat_torch_tensor(const preheat_torch_file* file, size_t index) {
  const HostTensor& t = file->tensors[index];
  return {const_cast<char*>(t.bytes.data()),
          static_cast<int32_t>(t.dtype),
          static_cast<int32_t>(t.sizes.size()),
          t.sizes.data(),
          t.strides.data(),
          PREHEAT_CPU,
          0};
}

void preheat_torch_close(preheat_torch_file* file) { delete file; }
