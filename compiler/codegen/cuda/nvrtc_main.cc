#include <malloc.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/codegen/cuda/nvrtc_wire.h"

// Compiles kernels for the process that started it, over its standard input, a socket: nvrtc_wire.h. Ends with it.
int main() {
  using namespace preheat::codegen;
  // NVRTC takes and gives back the same hundred megabytes for every kernel; each page of it costs a fault.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
  const absl::StatusOr<std::string> version = NvrtcVersion();
  if (!version.ok() || !WarmNvrtc().ok() || !SendFrame(STDIN_FILENO, *version)) return 1;
  while (true) {
    const std::optional<std::string> flags = ReceiveFrame(STDIN_FILENO);
    const std::optional<std::string> source = flags.has_value() ? ReceiveFrame(STDIN_FILENO) : std::nullopt;
    if (!source.has_value()) return 0;
    const absl::StatusOr<Cubin> cubin = CompileCubin(*source, absl::StrSplit(*flags, '\n'));
    const std::string numbers = cubin.ok() ? absl::StrCat(cubin->registers, " ", cubin->spill_bytes) : "";
    if (!SendFrame(STDIN_FILENO, numbers) ||
        !SendFrame(STDIN_FILENO, cubin.ok() ? cubin->bytes : std::string(cubin.status().message()))) {
      return 0;
    }
  }
}
