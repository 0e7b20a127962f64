#include "client/compilectl/bound_run.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

using reference::HostTensor;

// Tensors of artifacts begin at multiples of 16 bytes. The heap's memory does; a short string's own does not.
void LeaveShortStrings(HostTensor& tensor) { tensor.bytes.reserve(64); }

preheat_tensor View(const HostTensor& tensor) {
  return {.data = const_cast<char*>(tensor.bytes.data()),
          .dtype = static_cast<int32_t>(tensor.dtype),
          .rank = static_cast<int32_t>(tensor.sizes.size()),
          .sizes = tensor.sizes.data(),
          .strides = tensor.strides.data(),
          .device_type = PREHEAT_CPU,
          .device_index = 0};
}

}  // namespace

HostTensors::HostTensors(const std::vector<HostTensor>& tensors) {
  for (const HostTensor& tensor : tensors) tensors_.push_back(View(tensor));
}

absl::StatusOr<std::unique_ptr<BoundRun>> BoundRun::Make(const Executable& executable,
                                                         const std::vector<HostTensor>& inputs,
                                                         preheat_extern_handler handler) {
  if (inputs.size() != preheat_num_inputs(executable.get())) {
    return MakeError(absl::StatusCode::kInternal,
                     {.kind = "signature_mismatch",
                      .message = absl::StrCat("the artifact has ", preheat_num_inputs(executable.get()),
                                              " inputs, the program ", inputs.size()),
                      .where = executable.key(),
                      .fix = "remove the entry and compile again"});
  }
  std::unique_ptr<BoundRun> run(new BoundRun);
  run->input_memory_ = inputs;
  run->size_values_.resize(inputs.size());
  run->unit_strides_ = {1};
  std::vector<preheat_tensor> frozen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const preheat_input_info info = preheat_input(executable.get(), i);
    LeaveShortStrings(run->input_memory_[i]);
    preheat_tensor view = View(run->input_memory_[i]);
    if (info.is_size) {
      std::memcpy(&run->size_values_[i], run->input_memory_[i].bytes.data(), sizeof(int64_t));
      view = {.data = nullptr,
              .dtype = view.dtype,
              .rank = 1,
              .sizes = &run->size_values_[i],
              .strides = run->unit_strides_.data(),
              .device_type = PREHEAT_CPU,
              .device_index = 0};
    }
    (info.frozen ? frozen : run->inputs_).push_back(view);
  }
  BindOptions options;
  options.extern_handler = handler;
  ASSIGN_OR_RETURN(run->session_, executable.Bind(absl::MakeConstSpan(frozen), options));
  RETURN_IF_ERROR(run->MakeOutputs(executable));
  return run;
}

absl::Status BoundRun::MakeOutputs(const Executable& executable) {
  preheat_executable* loaded = executable.get();
  std::vector<int64_t> symbols(preheat_num_symbols(loaded));
  RETURN_IF_ERROR(FromRuntime(preheat_bind_symbols(loaded, inputs_.data(), inputs_.size(), symbols.data())));
  for (size_t i = 0; i < preheat_num_outputs(loaded); ++i) {
    const preheat_output_info info = preheat_output(loaded, i);
    if (info.mutates >= 0) continue;
    std::vector<int64_t> sizes(static_cast<size_t>(info.rank)), strides(static_cast<size_t>(info.rank));
    preheat_output_shape(loaded, symbols.data(), i, sizes.data(), strides.data());
    output_memory_.push_back(reference::MakeStrided(static_cast<ir::DType>(info.dtype), sizes, strides));
  }
  for (HostTensor& output : output_memory_) {
    LeaveShortStrings(output);
    outputs_.push_back(View(output));
  }
  return absl::OkStatus();
}

}  // namespace preheat::cli
