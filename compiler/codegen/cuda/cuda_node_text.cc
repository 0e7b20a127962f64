#include "compiler/codegen/cuda/cuda_node_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;
using ir::Value;

namespace {

constexpr char kSymbol[] = "PREHEAT_KERNEL";

}  // namespace

int CudaNodeText::Buffer(Value value, bool written) {
  auto [it, fresh] = buffers_.try_emplace({value, written}, static_cast<int>(loops_.buffers.size()));
  if (fresh) loops_.buffers.push_back({value, value.dtype(), written});
  return it->second;
}

CudaNodeText::Array CudaNodeText::Operand(Value value) {
  if (value.node->op() == Op::kFill)
    return {ConstantText(value.node->ScalarAttr("value"), value.dtype()), 0, value.dtype(), value.shape(), {}, {}};
  auto view = schedule::PeelViews(value, strides_of_, sizes_);
  if (!view) return {"", Buffer(value, false), value.dtype(), value.shape(), strides_of_(value), Expr(0)};
  return {"", Buffer(view->base, false), value.dtype(), value.shape(), view->strides, view->offset};
}

std::string CudaNodeText::Text(const Expr& e) {
  for (const std::string& s : e.Symbols()) {
    if (!locals_.count(s)) symbols_.insert(s);
  }
  return absl::StrCat("(",
                      IndexText(
                          e, [&](const std::string& s) { return locals_.count(s) ? s : SizeName(s); }, math_),
                      ")");
}
std::string CudaNodeText::Element(const Array& a, const schedule::Index& index) {
  Expr at = a.offset;
  for (size_t i = 0; i < index.size(); ++i) at = at + index[i] * a.strides[i];
  return absl::StrCat("b", a.buffer, "[", Text(at), "]");
}
std::string CudaNodeText::Load(const Array& a, const schedule::Index& index) {
  return a.constant.empty() ? LoadText(Element(a, index), a.dtype, math_) : a.constant;
}

CudaNodeText::Array CudaNodeText::Written(Value value) {
  return {"", Buffer(value, true), value.dtype(), value.shape(), strides_of_(value), Expr(0)};
}

absl::StatusOr<CudaKernel> CudaNodeText::Finish(const std::string& body, int64_t threads) {
  loops_.symbols.assign(symbols_.begin(), symbols_.end());
  std::string head = absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", threads, ") ", kSymbol, "(");
  for (size_t b = 0; b < loops_.buffers.size(); ++b) {
    absl::StrAppend(&head, loops_.buffers[b].written ? "" : "const ", std::string(StorageType(loops_.buffers[b].dtype)),
                    "* __restrict__ b", b, ", ");
  }
  for (const std::string& symbol : loops_.symbols) absl::StrAppend(&head, "const long ", SizeName(symbol), ", ");
  absl::StrAppend(&head, "int* error, char* scratch, const long extent) {");
  ASSIGN_OR_RETURN(std::string functions, CudaMathSource(math_));
  std::string source = absl::StrCat(functions, head, body, "}\n");
  source = BuiltinsFor(source) + source;
  CudaKernel emitted;
  emitted.code.symbol =
      absl::StrCat("preheat_", std::string(ir::Info(node_.op()).name), "_", Digest(source).substr(0, 8));
  emitted.code.source = absl::StrReplaceAll(source, {{kSymbol, emitted.code.symbol}});
  emitted.launch.threads_x = threads;
  emitted.launch.grid = loops_.extent;
  emitted.launch.shared_bytes = emitted.launch.scratch_bytes = Expr(0);
  return emitted;
}

}  // namespace preheat::codegen
