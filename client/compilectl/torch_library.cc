#include "client/compilectl/torch_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

constexpr char kName[] = "libpreheat_torch.so";

std::vector<std::string> Places() {
  if (const char* named = std::getenv("PREHEAT_TORCH"); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> places;
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) places = {(folder.parent_path() / "lib" / kName).string(), (folder / kName).string()};
  places.push_back(kName);
  return places;
}

absl::Status NoTorch(const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "no_torch",
                    .message = absl::StrCat("torch cannot be used: ", why),
                    .where = kName,
                    .fix = "build with torch, or name the library in PREHEAT_TORCH"});
}

absl::Status Failed(const char* message) {
  return MakeError(absl::StatusCode::kInternal,
                   {.kind = "torch_failed", .message = message, .where = kName, .fix = ""});
}

}  // namespace

absl::StatusOr<TorchLibrary> TorchLibrary::Open() {
  void* handle = nullptr;
  std::string why;
  for (const std::string& place : Places()) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    // The first place is where it belongs; why others fail says less.
    if (why.empty() || std::filesystem::exists(place)) why = dlerror();
  }
  if (handle == nullptr) return NoTorch(why);
  TorchLibrary library;
  bool complete = true;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    complete &= function != nullptr;
  };
  decltype(&preheat_torch_abi) abi = nullptr;
  find(abi, "preheat_torch_abi");
  find(library.free_, "preheat_torch_free");
  find(library.extern_, "preheat_torch_extern");
  find(library.time_, "preheat_torch_time");
  find(library.open_, "preheat_torch_open");
  find(library.num_tensors_, "preheat_torch_num_tensors");
  find(library.tensor_, "preheat_torch_tensor");
  find(library.close_, "preheat_torch_close");
  if (!complete || abi() != PREHEAT_TORCH_ABI) return NoTorch("the library is of another version of Preheat");
  return library;
}

absl::StatusOr<const TorchLibrary*> TorchLibrary::Get() {
  static const auto* const library = new absl::StatusOr<TorchLibrary>(Open());
  RETURN_IF_ERROR(library->status());
  return &**library;
}

absl::StatusOr<TorchLibrary::Timing> TorchLibrary::Time(const capture::AtenProgram& program,
                                                        absl::Span<const preheat_tensor> inputs, int repeat) const {
  Timing timing{};
  if (char* error = time_(&program, inputs.data(), inputs.size(), repeat, &timing.p50_ms, &timing.p99_ms)) {
    absl::Status status = Failed(error);
    free_(error);
    return status;
  }
  return timing;
}

absl::StatusOr<std::vector<reference::HostTensor>> TorchLibrary::ReadTensors(const std::string& file) const {
  preheat_torch_file* opened = nullptr;
  if (char* error = open_(file.data(), file.size(), &opened)) {
    absl::Status status = Failed(error);
    free_(error);
    return status;
  }
  std::vector<reference::HostTensor> tensors;
  for (size_t i = 0; i < num_tensors_(opened); ++i) {
    const preheat_tensor tensor = tensor_(opened, i);
    reference::HostTensor& copy = tensors.emplace_back(reference::MakeTensor(
        static_cast<ir::DType>(tensor.dtype), std::vector<int64_t>(tensor.sizes, tensor.sizes + tensor.rank)));
    if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), tensor.data, copy.bytes.size());
  }
  close_(opened);
  return tensors;
}

}  // namespace preheat::cli
