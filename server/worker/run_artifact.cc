#include "server/worker/run_artifact.h"

#include <dlfcn.h>

#include <memory>

#include "autotune/loaded_artifact.h"
#include "compiler/support/status_macros.h"
#include "server/worker/worker_gpu.h"

namespace preheat::worker {

preheat_extern_handler ExternHandler(const Device* gpu) {
  // Torch's kernels for GPUs register themselves as they are loaded.
  static const auto with_cuda = [] { return dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_LOCAL) != nullptr; };
  if (gpu != nullptr && !with_cuda()) return nullptr;
  static const preheat_extern_handler handler = []() -> preheat_extern_handler {
    void* library = dlopen("libpreheat_torch.so", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr
                              : reinterpret_cast<preheat_extern_handler>(dlsym(library, "preheat_torch_extern"));
  }();
  return handler;
}

absl::StatusOr<std::vector<reference::HostTensor>> RunArtifact(const std::string& target, const std::string& plan,
                                                               const std::map<std::string, std::string>& code,
                                                               const std::vector<reference::HostTensor>& inputs) {
  ASSIGN_OR_RETURN(Device * gpu, DeviceFor(target));
  ASSIGN_OR_RETURN(std::unique_ptr<autotune::LoadedArtifact> artifact,
                   autotune::LoadedArtifact::Load(plan, code, inputs, ExternHandler(gpu), gpu));
  const int runs = gpu == nullptr || artifact->mutates() ? 1 : 3;
  for (int i = 0; i < runs; ++i) RETURN_IF_ERROR(artifact->Run());
  return artifact->Outputs();
}

}  // namespace preheat::worker
