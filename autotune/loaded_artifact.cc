#include "autotune/loaded_artifact.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/c_status.h"

namespace preheat::autotune {

using reference::HostTensor;

// A tensor's bytes at an address as clients have them: a small std::string keeps its own at any multiple of 8.
struct LoadedArtifact::Memory {
  explicit Memory(const std::string& bytes)
      : size(bytes.size()), data(static_cast<char*>(std::aligned_alloc(kAlignment, Rounded(bytes.size())))) {
    if (data == nullptr) throw std::bad_alloc();
    std::memcpy(data, bytes.data(), size);
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;

  static constexpr size_t kAlignment = 64;
  static size_t Rounded(size_t size) { return (size / kAlignment + 1) * kAlignment; }
  const size_t size;
  char* const data;
};

LoadedArtifact::LoadedArtifact() = default;
LoadedArtifact::~LoadedArtifact() {
  if (session_ != nullptr) preheat_session_release(session_);
  if (executable_ != nullptr) preheat_executable_release(executable_);
}

absl::StatusOr<std::unique_ptr<LoadedArtifact>> LoadedArtifact::Load(const std::string& plan,
                                                                     const std::map<std::string, std::string>& code,
                                                                     const std::vector<HostTensor>& inputs,
                                                                     preheat_extern_handler handler) {
  std::unique_ptr<LoadedArtifact> loaded(new LoadedArtifact());
  std::vector<preheat_blob> blobs;
  for (const auto& [digest, bytes] : code) blobs.push_back({digest.c_str(), bytes.data(), bytes.size()});
  preheat_load_options options = {nullptr, 0};
  RETURN_IF_ERROR(runtime::FromC(
      preheat_executable_load(plan.data(), plan.size(), blobs.data(), blobs.size(), &options, &loaded->executable_)));
  if (preheat_num_inputs(loaded->executable_) != inputs.size()) {
    return absl::InternalError(
        absl::StrCat("the plan has ", preheat_num_inputs(loaded->executable_), " inputs, the program ", inputs.size()));
  }
  RETURN_IF_ERROR(loaded->Bind(inputs, handler));
  return loaded;
}

absl::Status LoadedArtifact::Bind(const std::vector<HostTensor>& inputs, preheat_extern_handler handler) {
  static constexpr int64_t kOne = 1;
  inputs_ = inputs;
  std::vector<preheat_tensor> all, frozen;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const preheat_input_info info = preheat_input(executable_, i);
    memory_.push_back(std::make_unique<Memory>(inputs_[i].bytes));
    inputs_[i].bytes.clear();
    const HostTensor& t = inputs_[i];
    const auto dtype = static_cast<int32_t>(t.dtype);
    char* data = memory_.back()->data;
    // A size is passed as its value in sizes[0] of a tensor without data.
    if (info.is_size != 0) {
      all.push_back({nullptr, dtype, 1, reinterpret_cast<const int64_t*>(data), &kOne, PREHEAT_CPU, 0});
    } else {
      const auto rank = static_cast<int32_t>(t.sizes.size());
      all.push_back({data, dtype, rank, t.sizes.data(), t.strides.data(), PREHEAT_CPU, 0});
    }
    (info.frozen != 0 ? frozen : free_).push_back(all.back());
  }
  preheat_bind_options options = {frozen.data(), frozen.size(), 0, handler, nullptr};
  RETURN_IF_ERROR(runtime::FromC(preheat_bind(executable_, &options, &session_)));
  std::vector<int64_t> symbols(preheat_num_symbols(executable_) + 1);
  RETURN_IF_ERROR(runtime::FromC(preheat_bind_symbols(executable_, all.data(), all.size(), symbols.data())));
  outputs_.resize(preheat_num_outputs(executable_));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const preheat_output_info info = preheat_output(executable_, i);
    output_memory_.emplace_back();
    if (info.mutates >= 0) continue;
    std::vector<int64_t> sizes(info.rank), strides(info.rank);
    preheat_output_shape(executable_, symbols.data(), i, sizes.data(), strides.data());
    outputs_[i] = reference::MakeStrided(static_cast<ir::DType>(info.dtype), std::move(sizes), std::move(strides));
    output_memory_.back() = std::make_unique<Memory>(outputs_[i].bytes);
    outputs_[i].bytes.clear();
    const HostTensor& t = outputs_[i];
    results_.push_back(
        {output_memory_.back()->data, info.dtype, info.rank, t.sizes.data(), t.strides.data(), PREHEAT_CPU, 0});
  }
  return absl::OkStatus();
}

absl::Status LoadedArtifact::Run() {
  return runtime::FromC(
      preheat_session_run(session_, free_.data(), free_.size(), results_.data(), results_.size(), nullptr));
}

void LoadedArtifact::Profile(bool on) { preheat_session_profile(session_, on ? 1 : 0); }

std::vector<std::string> LoadedArtifact::StepNames() {
  std::vector<std::string> names;
  for (const preheat_step_time& time : StepTimes()) names.emplace_back(time.name);
  return names;
}

std::vector<double> LoadedArtifact::StepSeconds() {
  std::vector<double> seconds;
  for (const preheat_step_time& time : StepTimes()) seconds.push_back(time.seconds);
  return seconds;
}

std::vector<preheat_step_time> LoadedArtifact::StepTimes() {
  std::vector<preheat_step_time> times(preheat_session_step_times(session_, nullptr, 0));
  times.resize(std::min(times.size(), preheat_session_step_times(session_, times.data(), times.size())));
  return times;
}

std::vector<HostTensor> LoadedArtifact::Outputs() const {
  std::vector<HostTensor> outputs = outputs_;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int32_t mutates = preheat_output(executable_, i).mutates;
    if (mutates >= 0) outputs[i] = inputs_[static_cast<size_t>(mutates)];
    const Memory& memory = mutates >= 0 ? *memory_[static_cast<size_t>(mutates)] : *output_memory_[i];
    outputs[i].bytes.assign(memory.data, memory.size);
  }
  return outputs;
}

}  // namespace preheat::autotune
