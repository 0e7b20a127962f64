// A plan from a stranger's cache, loaded without code.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/runtime/executable.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace preheat::runtime;
  const absl::string_view plan(reinterpret_cast<const char*>(data), size);
  auto executable = Executable::Load(plan, {}, preheat_load_options{.cache_dir = nullptr, .num_threads = 1});
  if (!executable.ok()) return 0;
  for (int64_t value : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1} << 40}) {
    const std::vector<int64_t> symbols((*executable)->root().num_symbols(), value);
    (*executable)->SizesFor(symbols.data()).status().IgnoreError();
  }
  return 0;
}
