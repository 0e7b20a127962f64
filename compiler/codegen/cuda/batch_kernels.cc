#include "compiler/codegen/cuda/batch_kernels.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/support/digest.h"

namespace preheat::codegen {

EmittedKernel BatchKernels(const EmittedKernel& kernel, int64_t buffers, int64_t count) {
  const std::string& source = kernel.source;
  const size_t head = source.find("extern \"C\" __global__");
  const size_t open = source.find(kernel.symbol + "(", head) + kernel.symbol.size() + 1;
  const size_t close = source.find(") {", open);
  std::vector<std::string> parameters = absl::StrSplit(source.substr(open, close - open), ", ");
  std::string locals;
  for (int64_t b = 0; b < buffers; ++b) {
    const std::string& parameter = parameters[b];  // "const float* __restrict__ b0"
    const std::string type = parameter.substr(0, parameter.find('*') + 1);
    absl::StrAppend(&locals, "\n  ", parameter, " = (", type, ")table.p[blockIdx.y][", b, "];");
  }
  parameters.erase(parameters.begin(), parameters.begin() + buffers);
  EmittedKernel batched;
  batched.source = absl::StrCat(source.substr(0, head), "struct Table { void* p[", count, "][", buffers, "]; };\n",
                                source.substr(head, open - head), "const __grid_constant__ Table table, ",
                                absl::StrJoin(parameters, ", "), ") {", locals, source.substr(close + 3));
  const std::string plain = kernel.symbol.substr(0, kernel.symbol.rfind('_'));
  batched.symbol = absl::StrCat(plain, "_x", count, "_", Digest(batched.source).substr(0, 8));
  batched.source = absl::StrReplaceAll(batched.source, {{kernel.symbol, batched.symbol}});
  return batched;
}

}  // namespace preheat::codegen
