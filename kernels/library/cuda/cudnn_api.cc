#include "kernels/library/cuda/cudnn_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::library::cudnn {
namespace {

void* OpenLibrary() {
  const char* named = std::getenv("PREHEAT_CUDNN");
  if (named != nullptr && *named != 0) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? library : dlopen("libcudnn.so", RTLD_NOW | RTLD_LOCAL);
}

absl::Status NotFound(absl::string_view why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "no_cudnn",
                    .message = absl::StrCat("cuDNN, which convolves on a GPU, ", why),
                    .where = "",
                    .fix = "install the Python package nvidia-cudnn, or name the library in PREHEAT_CUDNN"});
}

absl::StatusOr<Api> Open() {
  void* library = OpenLibrary();
  if (library == nullptr) return NotFound("was not found");
  Api api = {};
  bool found = true;
  const auto find = [&](const char* name, auto* function) {
    *reinterpret_cast<void**>(function) = dlsym(library, name);
    found = found && *reinterpret_cast<void**>(function) != nullptr;
  };
  find("cudnnGetVersion", &api.version);
  find("cudnnCreate", &api.create);
  find("cudnnSetStream", &api.set_stream);
  find("cudnnBackendCreateDescriptor", &api.create_descriptor);
  find("cudnnBackendDestroyDescriptor", &api.destroy_descriptor);
  find("cudnnBackendFinalize", &api.finalize);
  find("cudnnBackendSetAttribute", &api.set);
  find("cudnnBackendGetAttribute", &api.get);
  find("cudnnBackendExecute", &api.execute);
  if (!found) return NotFound("lacks the graph interface of version 8 and later");
  return api;
}

void* CurrentContext() {
  using GetCurrent = int (*)(void**);
  static const auto get = reinterpret_cast<GetCurrent>([] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver != nullptr ? dlsym(driver, "cuCtxGetCurrent") : nullptr;
  }());
  void* context = nullptr;
  return get != nullptr && get(&context) == 0 ? context : nullptr;
}

}  // namespace

absl::StatusOr<const Api*> OpenApi() {
  static const absl::StatusOr<Api>& api = *new absl::StatusOr<Api>(Open());
  if (!api.ok()) return api.status();
  return &*api;
}

absl::StatusOr<Handle*> HandleOfContext(const Api& api) {
  static std::mutex mutex;
  static auto& handles = *new std::map<void*, std::unique_ptr<Handle>>();
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Handle>& handle = handles[CurrentContext()];
  if (handle != nullptr) return handle.get();
  auto made = std::make_unique<Handle>();
  if (const int result = api.create(&made->handle); result != 0) {
    return NotFound(absl::StrCat("does not start: status ", result));
  }
  handle = std::move(made);
  return handle.get();
}

absl::Status Descriptor::Finalize(absl::string_view what) {
  if (result_ == 0) Note(api_->finalize(raw_));
  if (result_ == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "unsupported_library_call",
                    .message = absl::StrCat("cuDNN refuses ", what, ": status ", result_),
                    .where = "",
                    .fix = "exclude the operator, so that torch runs it"});
}

}  // namespace preheat::library::cudnn
