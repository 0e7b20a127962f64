#include "server/worker/run_artifact.h"

#include <dlfcn.h>

#include <memory>

#include "autotune/loaded_artifact.h"
#include "compiler/support/status_macros.h"

namespace preheat::worker {

preheat_extern_handler ExternHandler() {
  static const preheat_extern_handler handler = []() -> preheat_extern_handler {
    void* library = dlopen("libpreheat_torch.so", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr
                              : reinterpret_cast<preheat_extern_handler>(dlsym(library, "preheat_torch_extern"));
  }();
  return handler;
}

absl::StatusOr<std::vector<reference::HostTensor>> RunArtifact(const std::string& plan,
                                                               const std::map<std::string, std::string>& code,
                                                               const std::vector<reference::HostTensor>& inputs) {
  ASSIGN_OR_RETURN(std::unique_ptr<autotune::LoadedArtifact> artifact,
                   autotune::LoadedArtifact::Load(plan, code, inputs, ExternHandler()));
  RETURN_IF_ERROR(artifact->Run());
  return artifact->Outputs();
}

}  // namespace preheat::worker
