// A .pt file, as the client cuts the weights out of it.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/torch_script_file.h"

namespace preheat {
namespace {

absl::StatusOr<std::string> Cut(const void* data, size_t size) {
  static const int file = memfd_create("script", 0);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  return TorchScriptWithoutStorages(absl::StrCat("/proc/self/fd/", file));
}

}  // namespace
}  // namespace preheat

// What is cut has nothing more to cut, and the server must know it by its digest: it stays as it is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto once = preheat::Cut(data, size);
  if (!once.ok()) return 0;
  const auto again = preheat::Cut(once->data(), once->size());
  if (!again.ok() || *again != *once) std::abort();
  return 0;
}
