#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/codegen/node_loops.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

void PrintScan(NodeLoops& p) {
  const NodeArray x = p.Operand(0), y = p.Result(0);
  const size_t dim = p.dim();
  const ScanJoin join = JoinOf(p.node().op());
  // As eager keeps them.
  const DType kept = ir::IsFloat(x.dtype) && !join.extreme ? DType::kF64 : x.dtype;
  schedule::Index index = p.OpenItems(x.shape, AllDimsBut(x.shape.size(), dim));
  p.Line(absl::StrCat(CType(kept), " acc = ", IdentityText(join.identity, kept), ";"));
  p.OpenLoop("j", x.shape[dim]);
  index[dim] = Expr::Symbol("j");
  const std::string next = CastText(p.Load(x, index), x.dtype, kept, p.math());
  p.Line(absl::StrCat("acc = ", OpText(join.op, {"acc", next}, kept, kept, p.math()), ";"));
  p.Store(y, index, CastText("acc", kept, ComputeType(y.dtype), p.math()));
  p.Close();
  p.Close();
  p.kernel().work = x.shape[dim];
}

}  // namespace preheat::codegen
