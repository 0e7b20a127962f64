#include "compiler/codegen/emitted_kernel.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/support/digest.h"

namespace preheat::codegen {

EmittedKernel NamedKernel(absl::string_view ops, const std::string& source) {
  EmittedKernel emitted;
  emitted.symbol = absl::StrCat("preheat_", ops, "_", Digest(source).substr(0, 8));
  emitted.source = absl::StrReplaceAll(source, {{kSymbol, emitted.symbol}});
  return emitted;
}

std::string OpsName(const Kernel& kernel) {
  std::vector<std::string> ops;
  auto note = [&](ir::Op op) {
    std::string name(ir::Info(op).name);
    if (ops.size() < 4 && std::find(ops.begin(), ops.end(), name) == ops.end()) ops.push_back(name);
  };
  for (const Accumulator& a : kernel.accumulators) note(a.op);
  for (const Stmt& s : kernel.stmts) {
    if (s.kind == Stmt::Kind::kOp) note(s.op);
    if (s.kind == Stmt::Kind::kWrap && ops.empty()) ops.push_back("take");
  }
  return ops.empty() ? "copy" : absl::StrJoin(ops, "_");
}

}  // namespace preheat::codegen
