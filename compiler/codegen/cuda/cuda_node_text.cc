#include "compiler/codegen/cuda/cuda_node_text.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::Expr;

NodeArray CudaNodeText::FilledOrOperand(int i) {
  return node().operand(i).node->op() == ir::Op::kFill ? Filled(i) : Operand(i);
}

std::string CudaNodeText::DefineFromQ(size_t d, const Expr& size) {
  const std::string n = Text(size), name = absl::StrCat("i", d);
  Local(name);
  return absl::StrCat("  const long ", name, " = q % ", n, ";\n  q /= ", n, ";\n");
}

absl::StatusOr<CudaKernel> CudaNodeText::Finish(const std::string& body, int64_t threads) {
  kernel().symbols = Symbols();
  std::string head = absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", threads, ") ", kSymbol, "(");
  for (size_t b = 0; b < kernel().buffers.size(); ++b)
    absl::StrAppend(&head, BufferType(b), "* __restrict__ b", b, ", ");
  for (const std::string& symbol : kernel().symbols) absl::StrAppend(&head, "const long ", SizeName(symbol), ", ");
  absl::StrAppend(&head, "int* error, char* scratch, const long extent) {");
  ASSIGN_OR_RETURN(std::string functions, CudaMathSource(math()));
  const std::string source = absl::StrCat(functions, head, body, "}\n");
  CudaKernel emitted;
  emitted.code = NamedKernel(ir::Info(node().op()).name, BuiltinsFor(source) + source);
  emitted.launch.threads_x = threads;
  emitted.launch.grid = kernel().extent;
  emitted.launch.shared_bytes = emitted.launch.scratch_bytes = Expr(0);
  return emitted;
}

}  // namespace preheat::codegen
