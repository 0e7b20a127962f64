#include "compiler/codegen/cpu/emit_cpu_node.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/cpu_text.h"
#include "compiler/codegen/cpu/math_functions.h"
#include "compiler/codegen/node_loops.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {
namespace {

constexpr int kColumns = 64;  // of a put_rows item

std::string Head(const NodeLoops& printed, const Kernel& kernel) {
  std::string head = absl::StrCat("extern \"C\" void ", kSymbol, "(const Args* args, long begin, long end) {\n");
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const std::string type = printed.BufferType(b);
    absl::StrAppend(&head, "  ", type, "* __restrict b", b, " = (", type, "*)args->buffers[", b, "];\n");
  }
  for (size_t s = 0; s < kernel.symbols.size(); ++s) {
    absl::StrAppend(&head, "  const long ", kernel.symbols[s], " = args->scalars[", s, "];\n");
  }
  return head;
}

}  // namespace

absl::StatusOr<EmittedKernel> EmitCpuNode(const schedule::Region& region, const StridesFn& strides_of,
                                          const ir::Ranges& sizes, Kernel& loops) {
  NodeLoops printed(region, strides_of, sizes, loops, {"++item", "args->scratch", kColumns, true});
  PrintNode(printed);
  loops.symbols = printed.Symbols();
  const bool checks = loops.checks;
  ASSIGN_OR_RETURN(std::string functions, MathSource(printed.math()));
  return NamedKernel(ir::Info(printed.node().op()).name,
                     absl::StrCat(kArgsStruct, functions, Head(printed, loops), checks ? "  int bad = 0;\n" : "",
                                  printed.text(), checks ? "  if (bad) *args->error = bad;\n" : "", "}\n"));
}

}  // namespace preheat::codegen
