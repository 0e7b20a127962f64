#include "compiler/codegen/cuda/emit_cuda_node.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/codegen/cuda/emit_put_rows.h"
#include "compiler/codegen/cuda/emit_scan.h"
#include "compiler/codegen/node_loops.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int kThreads = 32;         // a block
constexpr int kScratchBlocks = 256;  // at most, where threads need memory of their own: they take several items each

// Scratch is a thread's own, one after another.
std::string Head(NodeLoops& printed, const Kernel& kernel) {
  std::string head = absl::StrCat("extern \"C\" __global__ void ", kSymbol, "(");
  for (size_t b = 0; b < kernel.buffers.size(); ++b)
    absl::StrAppend(&head, printed.BufferType(b), "* __restrict__ b", b, ", ");
  for (const std::string& symbol : kernel.symbols) absl::StrAppend(&head, "const long ", symbol, ", ");
  absl::StrAppend(&head, "int* error, char* scratch, const long end) {\n  const long begin = (long)blockIdx.x * ",
                  kThreads, " + threadIdx.x, step = (long)gridDim.x * ", kThreads, ";\n");
  if (kernel.scratch_bytes != Expr(0))
    absl::StrAppend(&head, "  char* own = scratch + begin * (", printed.Text(kernel.scratch_bytes), " / 64 * 64);\n");
  return head;
}

CudaLaunch LaunchOf(const Kernel& kernel) {
  CudaLaunch launch;
  launch.threads_x = kThreads;
  launch.grid = Expr::CeilDiv(kernel.extent, Expr(kThreads));
  if (kernel.scratch_bytes != Expr(0)) launch.grid = Expr::Min(launch.grid, Expr(kScratchBlocks));
  launch.scratch_bytes = kernel.scratch_bytes * Expr(kThreads);
  return launch;
}

// A thread an item.
absl::StatusOr<CudaKernel> EmitByThreads(const schedule::Region& region, const StridesFn& strides_of,
                                         const ir::Ranges& sizes, Kernel& loops) {
  NodeLoops printed(region, strides_of, sizes, loops, {"item += step", "own"});
  PrintNode(printed);
  loops.symbols = printed.Symbols();
  const bool checks = loops.checks;
  const std::string body = absl::StrCat(Head(printed, loops), checks ? "  int bad = 0;\n" : "", printed.text(),
                                        checks ? "  if (bad) *error = bad;\n" : "", "}\n");
  ASSIGN_OR_RETURN(std::string functions, CudaMathSource(printed.math()));
  const std::string source = functions + body;
  CudaKernel emitted;
  emitted.code = NamedKernel(ir::Info(printed.node().op()).name, BuiltinsFor(source) + source);
  emitted.launch = LaunchOf(loops);
  return emitted;
}

}  // namespace

absl::StatusOr<CudaKernel> EmitCudaNode(const schedule::Region& region, const StridesFn& strides_of,
                                        const ir::Ranges& sizes, Kernel& loops) {
  const ir::Node& node = *region.outputs[0].node;
  if (node.op() == ir::Op::kPutRows) return EmitPutRows(region, strides_of, sizes, loops);
  if (ScansByBlocks(node)) return EmitScan(region, strides_of, sizes, loops);
  return EmitByThreads(region, strides_of, sizes, loops);
}

}  // namespace preheat::codegen
