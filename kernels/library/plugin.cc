#include "kernels/library/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::library {
namespace {

constexpr size_t kMessageBytes = 256;

absl::Status ProviderError(const preheat_provider_api& api, const char* message) {
  return MakeError(absl::StatusCode::kInternal, {.kind = "library_failed",
                                                 .message = absl::StrCat(api.name, ": ", message),
                                                 .where = "",
                                                 .fix = "ask for provider \"loops\", and report this"});
}

class PluginCall : public PreparedCall {
 public:
  PluginCall(const preheat_provider_api& api, preheat_lib_prepared* prepared) : api_(api), prepared_(prepared) {}
  ~PluginCall() override { api_.release(prepared_); }

  absl::string_view provider() const override { return api_.name; }
  int64_t scratch_bytes() const override { return api_.scratch_bytes(prepared_); }
  std::string pack_key(int operand) const override { return api_.pack_key(prepared_, operand); }
  int64_t packed_bytes(int operand) const override { return api_.packed_bytes(prepared_, operand); }
  absl::Status Pack(int operand, const void* from, void* to) const override {
    char message[kMessageBytes] = "";
    if (api_.pack(prepared_, operand, from, to, message, sizeof(message)) == 0) return absl::OkStatus();
    return ProviderError(api_, message);
  }
  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    char message[kMessageBytes];
    if (api_.run(prepared_, &addresses, message, sizeof(message)) == 0) return absl::OkStatus();
    return ProviderError(api_, message);
  }

 private:
  const preheat_provider_api& api_;
  preheat_lib_prepared* const prepared_;
};

class Plugin : public Provider {
 public:
  explicit Plugin(const preheat_provider_api& api) : api_(api) {}
  absl::string_view name() const override { return api_.name; }

  absl::StatusOr<std::unique_ptr<PreparedCall>> Prepare(const CallSpec& call) const override {
    std::vector<preheat_lib_epilogue> epilogue;
    const preheat_lib_call c = AsC(call, &epilogue);
    preheat_lib_prepared* prepared = nullptr;
    char message[kMessageBytes] = "";
    if (api_.prepare(&c, &prepared, message, sizeof(message)) != 0) {
      return absl::UnimplementedError(absl::StrCat(api_.name, ": ", message));
    }
    return std::make_unique<PluginCall>(api_, prepared);
  }

 private:
  const preheat_provider_api& api_;
};

// The folder of the shared object or program that holds this function.
std::filesystem::path OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, failed);
  return failed ? std::filesystem::path(info.dli_fname).parent_path() : file.parent_path();
}

const preheat_provider_api* Open(const char* file) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  const int flags = RTLD_NOW | RTLD_LOCAL;  // sanitizers replace symbols and refuse RTLD_DEEPBIND
#else
  const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
  for (const char* folder : {".", "../lib"}) {
    const std::filesystem::path path = OwnFolder() / folder / file;
    void* handle = dlopen(path.c_str(), flags);
    if (handle == nullptr) continue;
    const auto entry = reinterpret_cast<preheat_provider_entry>(dlsym(handle, PREHEAT_PROVIDER_ENTRY));
    const preheat_provider_api* api = entry != nullptr ? entry() : nullptr;
    if (api != nullptr && api->abi == PREHEAT_PROVIDER_ABI) return api;
  }
  return nullptr;
}

}  // namespace

const Provider* OneDnnProvider() {
  static const Provider* const provider = []() -> const Provider* {
    const preheat_provider_api* api = Open("libpreheat_onednn.so");
    return api != nullptr ? new Plugin(*api) : nullptr;
  }();
  return provider;
}

}  // namespace preheat::library
