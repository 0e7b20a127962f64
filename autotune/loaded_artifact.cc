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

// A tensor's bytes at an address as clients have them (a small std::string keeps its own at any multiple of 8), or on a
// GPU.
struct LoadedArtifact::Memory {
  static absl::StatusOr<std::shared_ptr<Memory>> OfSize(size_t bytes, Device* gpu) {
    std::shared_ptr<Memory> memory(new Memory(bytes, gpu));
    if (gpu == nullptr) {
      memory->data = static_cast<char*>(std::aligned_alloc(kAlignment, Rounded(bytes)));
      if (memory->data == nullptr) throw std::bad_alloc();
      return memory;
    }
    ASSIGN_OR_RETURN(void* data, gpu->Allocate(static_cast<int64_t>(bytes)));
    memory->data = static_cast<char*>(data);
    return memory;
  }
  static absl::StatusOr<std::shared_ptr<Memory>> Of(const std::string& bytes, Device* gpu) {
    ASSIGN_OR_RETURN(std::shared_ptr<Memory> memory, OfSize(bytes.size(), gpu));
    if (gpu == nullptr) {
      std::memcpy(memory->data, bytes.data(), bytes.size());
    } else if (!bytes.empty()) {
      RETURN_IF_ERROR(gpu->Copy(memory->data, bytes.data(), static_cast<int64_t>(bytes.size())));
    }
    return memory;
  }
  ~Memory() { gpu == nullptr ? std::free(data) : gpu->Free(data); }
  Memory(const Memory&) = delete;

  absl::StatusOr<std::string> Bytes() const {
    if (gpu == nullptr) return std::string(data, size);
    std::string bytes(size, 0);
    if (size > 0) RETURN_IF_ERROR(gpu->Copy(bytes.data(), data, static_cast<int64_t>(size)));
    return bytes;
  }

  static constexpr size_t kAlignment = 64;
  static size_t Rounded(size_t size) { return (size / kAlignment + 1) * kAlignment; }
  const size_t size;
  Device* const gpu;
  char* data = nullptr;

 private:
  Memory(size_t bytes, Device* device) : size(bytes), gpu(device) {}
};

struct LoadedArtifact::Common {
  explicit Common(int64_t most) : max_bytes(most) {}

  absl::Status Take(size_t more) {
    bytes += static_cast<int64_t>(more);
    if (max_bytes <= 0 || bytes <= max_bytes) return absl::OkStatus();
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.kind = "too_much_memory",
                      .message = absl::StrCat("its tensors exceed ", max_bytes >> 20, " MiB, what the worker may hold"),
                      .where = "",
                      .fix = "give the server's workers more memory (worker_memory_bytes)"});
  }
  // Those who run in turn have no use for what is in it.
  absl::Status Reserve(size_t size) {
    if (arena != nullptr && arena->size >= size) return absl::OkStatus();
    RETURN_IF_ERROR(Take(size - (arena != nullptr ? arena->size : 0)));
    arena.reset();
    ASSIGN_OR_RETURN(arena, Memory::OfSize(size, nullptr));
    return absl::OkStatus();
  }
  // The place of a tensor, null until it has one.
  static std::shared_ptr<Memory>& At(std::vector<std::shared_ptr<Memory>>& list, size_t number) {
    list.resize(std::max(list.size(), number + 1));
    return list[number];
  }

  std::vector<std::shared_ptr<Memory>> inputs, outputs;
  std::shared_ptr<Memory> arena;
  const int64_t max_bytes;
  int64_t bytes = 0;
};

std::shared_ptr<LoadedArtifact::Common> LoadedArtifact::NewCommon(int64_t max_bytes) {
  return std::make_shared<Common>(max_bytes);
}

LoadedArtifact::LoadedArtifact(Device* gpu, std::shared_ptr<Common> common) : gpu_(gpu), common_(std::move(common)) {}
LoadedArtifact::~LoadedArtifact() {
  if (session_ != nullptr) preheat_session_release(session_);
  if (executable_ != nullptr) preheat_executable_release(executable_);
}

absl::StatusOr<std::unique_ptr<LoadedArtifact>> LoadedArtifact::Load(const std::string& plan,
                                                                     const std::map<std::string, std::string>& code,
                                                                     const std::vector<HostTensor>& inputs,
                                                                     preheat_extern_handler handler, Device* gpu,
                                                                     std::shared_ptr<Common> common) {
  std::unique_ptr<LoadedArtifact> loaded(new LoadedArtifact(gpu, std::move(common)));
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
  std::vector<preheat_tensor> all, frozen;
  inputs_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) RETURN_IF_ERROR(AddInput(i, inputs[i], &frozen, &all));
  preheat_bind_options options = {frozen.data(), frozen.size(), gpu_ != nullptr ? gpu_->ordinal() : 0, handler,
                                  nullptr};
  RETURN_IF_ERROR(runtime::FromC(preheat_bind(executable_, &options, &session_)));
  symbols_.resize(preheat_num_symbols(executable_) + 1);
  RETURN_IF_ERROR(runtime::FromC(preheat_bind_symbols(executable_, all.data(), all.size(), symbols_.data())));
  outputs_.resize(preheat_num_outputs(executable_));
  for (size_t i = 0; i < outputs_.size(); ++i) RETURN_IF_ERROR(AddOutput(i));
  if (common_ == nullptr || gpu_ != nullptr) return absl::OkStatus();  // a GPU's runs have their stream's workspace
  return common_->Reserve(static_cast<size_t>(preheat_arena_bytes(executable_, symbols_.data())));
}

preheat_tensor LoadedArtifact::View(const Memory& memory, const HostTensor& t) const {
  return {memory.data,
          static_cast<int32_t>(t.dtype),
          static_cast<int32_t>(t.sizes.size()),
          t.sizes.data(),
          t.strides.data(),
          gpu_ != nullptr ? PREHEAT_CUDA : PREHEAT_CPU,
          gpu_ != nullptr ? gpu_->ordinal() : 0};
}

absl::Status LoadedArtifact::AddInput(size_t number, const HostTensor& input, std::vector<preheat_tensor>* frozen,
                                      std::vector<preheat_tensor>* all) {
  static constexpr int64_t kOne = 1;
  const preheat_input_info info = preheat_input(executable_, number);
  // A size is passed as its value in sizes[0] of a tensor without data.
  std::shared_ptr<Memory> own;
  std::shared_ptr<Memory>& memory = common_ != nullptr ? Common::At(common_->inputs, number) : own;
  if (memory == nullptr) {
    if (common_ != nullptr) RETURN_IF_ERROR(common_->Take(input.bytes.size()));
    ASSIGN_OR_RETURN(memory, Memory::Of(input.bytes, info.is_size != 0 ? nullptr : gpu_));
  }
  HostTensor& t = inputs_[number];
  t = HostTensor{input.dtype, input.sizes, input.strides, ""};
  preheat_tensor tensor = View(*memory, t);
  if (info.is_size != 0) {
    tensor = {nullptr, tensor.dtype, 1, reinterpret_cast<const int64_t*>(memory->data), &kOne, PREHEAT_CPU, 0};
  }
  memory_.push_back(memory);
  all->push_back(tensor);
  (info.frozen != 0 ? *frozen : free_).push_back(tensor);
  return absl::OkStatus();
}

absl::Status LoadedArtifact::AddOutput(size_t number) {
  const preheat_output_info info = preheat_output(executable_, number);
  output_memory_.emplace_back();
  if (info.mutates >= 0) return absl::OkStatus();
  std::vector<int64_t> sizes(info.rank), strides(info.rank);
  preheat_output_shape(executable_, symbols_.data(), number, sizes.data(), strides.data());
  HostTensor& t = outputs_[number];
  t = HostTensor{static_cast<ir::DType>(info.dtype), std::move(sizes), std::move(strides), ""};
  std::shared_ptr<Memory>& memory = common_ != nullptr ? Common::At(common_->outputs, number) : output_memory_.back();
  if (memory == nullptr) {
    const HostTensor zeros = reference::MakeStrided(t.dtype, t.sizes, t.strides);
    if (common_ != nullptr) RETURN_IF_ERROR(common_->Take(zeros.bytes.size()));
    ASSIGN_OR_RETURN(memory, Memory::Of(zeros.bytes, gpu_));
  }
  output_memory_.back() = memory;
  results_.push_back(View(*output_memory_.back(), t));
  return absl::OkStatus();
}

absl::Status LoadedArtifact::RunUnchecked() {
  std::vector<void*> inputs, outputs;
  for (const preheat_tensor& input : free_) inputs.push_back(input.data);
  for (const preheat_tensor& output : results_) outputs.push_back(output.data);
  char* const arena = common_->arena != nullptr ? common_->arena->data : nullptr;
  return runtime::FromC(
      preheat_session_run_raw(session_, symbols_.data(), inputs.data(), outputs.data(), arena, nullptr));
}

absl::Status LoadedArtifact::RunChecked() {
  return runtime::FromC(
      preheat_session_run(session_, free_.data(), free_.size(), results_.data(), results_.size(), nullptr));
}

absl::Status LoadedArtifact::Run() {
  RETURN_IF_ERROR(common_ != nullptr ? RunUnchecked() : RunChecked());
  return gpu_ != nullptr ? gpu_->Synchronize(nullptr) : absl::OkStatus();
}

bool LoadedArtifact::mutates() const {
  return std::any_of(output_memory_.begin(), output_memory_.end(),
                     [](const auto& memory) { return memory == nullptr; });
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

std::string LoadedArtifact::Algorithm(size_t step) {
  std::string bytes(preheat_session_algorithm(session_, step, nullptr, 0), 0);
  preheat_session_algorithm(session_, step, bytes.data(), bytes.size());
  return bytes;
}

absl::StatusOr<std::vector<HostTensor>> LoadedArtifact::Outputs() const {
  std::vector<HostTensor> outputs = outputs_;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int32_t mutates = preheat_output(executable_, i).mutates;
    if (mutates >= 0) outputs[i] = inputs_[static_cast<size_t>(mutates)];
    const Memory& memory = mutates >= 0 ? *memory_[static_cast<size_t>(mutates)] : *output_memory_[i];
    ASSIGN_OR_RETURN(outputs[i].bytes, memory.Bytes());
  }
  return outputs;
}

}  // namespace preheat::autotune
