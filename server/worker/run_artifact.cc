#include "server/worker/run_artifact.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/preheat_runtime.h"
#include "server/rpc/error_proto.h"

namespace preheat::worker {
namespace {

using reference::HostTensor;

absl::Status Take(preheat_status* status) {
  if (status == nullptr) return absl::OkStatus();
  v1::Error error;
  error.set_code(preheat_status_code(status));
  error.set_kind(preheat_status_kind(status));
  error.set_message(preheat_status_message(status));
  error.set_where(preheat_status_where(status));
  error.set_fix(preheat_status_fix(status));
  preheat_status_free(status);
  return server::FromProto(error);
}

struct ReleaseExecutable {
  void operator()(preheat_executable* executable) const { preheat_executable_release(executable); }
};
struct ReleaseSession {
  void operator()(preheat_session* session) const { preheat_session_release(session); }
};
using Executable = std::unique_ptr<preheat_executable, ReleaseExecutable>;
using Session = std::unique_ptr<preheat_session, ReleaseSession>;

// torch's dispatcher, opened at the first use; null where there is none.
preheat_extern_handler ExternHandler() {
  static const preheat_extern_handler handler = []() -> preheat_extern_handler {
    void* library = dlopen("libpreheat_torch.so", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr
                              : reinterpret_cast<preheat_extern_handler>(dlsym(library, "preheat_torch_extern"));
  }();
  return handler;
}

// A tensor's bytes at an address as clients have them: a small std::string keeps its own at any multiple of 8.
class Memory {
 public:
  explicit Memory(const std::string& bytes)
      : size_(bytes.size()), data_(static_cast<char*>(std::aligned_alloc(kAlignment, Rounded(bytes.size())))) {
    if (data_ == nullptr) throw std::bad_alloc();
    std::memcpy(data_.get(), bytes.data(), size_);
  }
  void* data() const { return data_.get(); }
  void CopyTo(std::string& bytes) const { bytes.assign(data_.get(), size_); }

 private:
  static constexpr size_t kAlignment = 64;
  static size_t Rounded(size_t size) { return (size / kAlignment + 1) * kAlignment; }
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  size_t size_;
  std::unique_ptr<char, Free> data_;
};

// A size is passed as its value in sizes[0] of a tensor without data.
preheat_tensor View(const HostTensor& tensor, const Memory& memory, bool is_size) {
  static constexpr int64_t kOne = 1;
  if (is_size) {
    return {
        nullptr, static_cast<int32_t>(tensor.dtype), 1, static_cast<const int64_t*>(memory.data()), &kOne, PREHEAT_CPU,
        0};
  }
  return {memory.data(),
          static_cast<int32_t>(tensor.dtype),
          static_cast<int32_t>(tensor.sizes.size()),
          tensor.sizes.data(),
          tensor.strides.data(),
          PREHEAT_CPU,
          0};
}

absl::StatusOr<Executable> Load(const std::string& plan, const std::map<std::string, std::string>& code) {
  std::vector<preheat_blob> blobs;
  for (const auto& [digest, bytes] : code) blobs.push_back({digest.c_str(), bytes.data(), bytes.size()});
  preheat_load_options options = {nullptr, 0};
  preheat_executable* executable = nullptr;
  RETURN_IF_ERROR(
      Take(preheat_executable_load(plan.data(), plan.size(), blobs.data(), blobs.size(), &options, &executable)));
  return Executable(executable);
}

absl::StatusOr<Session> Bind(preheat_executable* executable, const std::vector<preheat_tensor>& frozen) {
  preheat_bind_options options = {frozen.data(), frozen.size(), 0, ExternHandler(), nullptr};
  preheat_session* session = nullptr;
  RETURN_IF_ERROR(Take(preheat_bind(executable, &options, &session)));
  return Session(session);
}

HostTensor MakeOutput(preheat_executable* executable, const std::vector<int64_t>& symbols, size_t index) {
  preheat_output_info info = preheat_output(executable, index);
  std::vector<int64_t> sizes(info.rank), strides(info.rank);
  preheat_output_shape(executable, symbols.data(), index, sizes.data(), strides.data());
  return reference::MakeStrided(static_cast<ir::DType>(info.dtype), std::move(sizes), std::move(strides));
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> RunArtifact(const std::string& plan,
                                                    const std::map<std::string, std::string>& code,
                                                    const std::vector<HostTensor>& inputs) {
  ASSIGN_OR_RETURN(Executable executable, Load(plan, code));
  if (preheat_num_inputs(executable.get()) != inputs.size()) {
    return absl::InternalError(
        absl::StrCat("the plan has ", preheat_num_inputs(executable.get()), " inputs, the program ", inputs.size()));
  }
  std::vector<Memory> memory, result_memory;
  std::vector<preheat_tensor> all, frozen, free, results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    preheat_input_info info = preheat_input(executable.get(), i);
    memory.emplace_back(inputs[i].bytes);
    all.push_back(View(inputs[i], memory.back(), info.is_size != 0));
    (info.frozen ? frozen : free).push_back(all.back());
  }
  ASSIGN_OR_RETURN(Session session, Bind(executable.get(), frozen));
  std::vector<int64_t> symbols(preheat_num_symbols(executable.get()) + 1);
  RETURN_IF_ERROR(Take(preheat_bind_symbols(executable.get(), all.data(), all.size(), symbols.data())));

  std::vector<HostTensor> outputs(preheat_num_outputs(executable.get()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (preheat_output(executable.get(), i).mutates >= 0) continue;
    outputs[i] = MakeOutput(executable.get(), symbols, i);
    result_memory.emplace_back(outputs[i].bytes);
    results.push_back(View(outputs[i], result_memory.back(), false));
  }
  RETURN_IF_ERROR(
      Take(preheat_session_run(session.get(), free.data(), free.size(), results.data(), results.size(), nullptr)));
  for (size_t i = 0, next = 0; i < outputs.size(); ++i) {
    int32_t mutates = preheat_output(executable.get(), i).mutates;
    if (mutates >= 0) outputs[i] = inputs[static_cast<size_t>(mutates)];
    (mutates >= 0 ? memory[static_cast<size_t>(mutates)] : result_memory[next++]).CopyTo(outputs[i].bytes);
  }
  return outputs;
}

}  // namespace preheat::worker
