#include "client/cpp/executable.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/dlpack.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/c_status.h"

namespace preheat {
absl::Status FromRuntime(preheat_status* status) { return runtime::FromC(status); }

absl::Status Session::Run(absl::Span<const DLTensor> inputs, absl::Span<const DLTensor> outputs, void* stream) const {
  ASSIGN_OR_RETURN(RuntimeTensors in, RuntimeTensors::From(inputs));
  ASSIGN_OR_RETURN(RuntimeTensors out, RuntimeTensors::From(outputs));
  return Run(in.tensors(), out.tensors(), stream);
}

absl::Status Session::Run(absl::Span<const preheat_tensor> inputs, absl::Span<const preheat_tensor> outputs,
                          void* stream) const {
  return FromRuntime(preheat_session_run(get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), stream));
}

absl::Status Session::Refresh(absl::Span<const DLTensor> frozen) const {
  ASSIGN_OR_RETURN(RuntimeTensors tensors, RuntimeTensors::From(frozen));
  const auto span = tensors.tensors();
  return FromRuntime(preheat_session_refresh(get(), span.empty() ? nullptr : span.data(), span.size()));
}

absl::StatusOr<Executable> Executable::Load(v1::CompileResult result, const std::map<std::string, std::string>& blobs,
                                            const std::string& code_dir, int threads) {
  const auto plan = blobs.find(result.manifest().plan().digest());
  if (plan == blobs.end()) {
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                   .message = "the artifact came without its plan",
                                                   .where = result.key(),
                                                   .fix = "ask again"});
  }
  std::vector<preheat_blob> code;
  for (const v1::BlobRef& ref : result.manifest().code()) {
    const auto it = blobs.find(ref.digest());
    if (it != blobs.end())
      code.push_back({.digest = it->first.c_str(), .data = it->second.data(), .size = it->second.size()});
  }
  const preheat_load_options options = {.cache_dir = code_dir.empty() ? nullptr : code_dir.c_str(),
                                        .num_threads = threads};
  preheat_executable* loaded = nullptr;
  RETURN_IF_ERROR(WithWhere(FromRuntime(preheat_executable_load(plan->second.data(), plan->second.size(), code.data(),
                                                                code.size(), &options, &loaded)),
                            result.key()));
  Executable executable;
  executable.executable_.reset(loaded, preheat_executable_release);
  executable.result_ = std::make_shared<const v1::CompileResult>(std::move(result));
  return executable;
}

absl::StatusOr<Session> Executable::Bind(const BindOptions& options) const {
  ASSIGN_OR_RETURN(RuntimeTensors frozen, RuntimeTensors::From(options.frozen));
  return Bind(frozen.tensors(), options);
}

absl::StatusOr<Session> Executable::Bind(absl::Span<const preheat_tensor> frozen, const BindOptions& options) const {
  const preheat_bind_options bind = {.frozen = frozen.data(),
                                     .num_frozen = frozen.size(),
                                     .device_index = options.device,
                                     .extern_handler = options.extern_handler,
                                     .extern_context = options.extern_context};
  preheat_session* session = nullptr;
  RETURN_IF_ERROR(FromRuntime(preheat_bind(get(), &bind, &session)));
  return Session(session);
}

}  // namespace preheat
