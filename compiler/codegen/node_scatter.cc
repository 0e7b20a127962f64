#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/codegen/node_loops.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Along the other dimensions the index may be smaller than x: the conditions under which a line has updates at all.
std::string HasUpdates(NodeLoops& p, const NodeArray& x, const NodeArray& index, size_t dim,
                       const schedule::Index& line) {
  std::vector<std::string> inside;
  for (size_t d = 0; d < index.shape.size(); ++d) {
    if (d != dim && index.shape[d] != x.shape[d])
      inside.push_back(absl::StrCat(p.Text(line[d]), " < ", p.Text(index.shape[d])));
  }
  return absl::StrJoin(inside, " && ");
}

}  // namespace

void PrintScatter(NodeLoops& p) {
  const NodeArray x = p.OperandOfPut(0), index = p.OperandOfPut(1), src = p.Operand(2), y = p.Result(0);
  const size_t dim = p.dim();
  const Expr n = x.shape[dim], count = index.shape[dim];
  const schedule::Index line = p.OpenItems(x.shape, AllDimsBut(x.shape.size(), dim));
  auto along = [&](const std::string& var) {
    schedule::Index at = line;
    at[dim] = Expr::Symbol(var);
    return at;
  };
  p.OpenLoop("j", n);
  p.Store(y, along("j"), p.Load(x, along("j")));
  p.Close();
  const std::string updates = HasUpdates(p, x, index, dim, line);
  if (!updates.empty()) p.OpenIf(updates);
  p.OpenLoop("k", count);
  schedule::Index from(index.shape.size());
  for (size_t d = 0; d < from.size(); ++d) from[d] = d == dim ? Expr::Symbol("k") : line[d];
  p.DefineChecked(CastText(p.Load(index, from), index.dtype, DType::kI64, p.math()), n, ErrorSite::kScatter);
  const schedule::Index to = along("at");
  p.Store(y, to, p.Reduced(p.node().String("reduce"), p.Load(y, to), p.Load(src, from), y.dtype));
  p.Close();
  if (!updates.empty()) p.Close();
  p.Close();
  p.kernel().work = n + count;
}

}  // namespace preheat::codegen
