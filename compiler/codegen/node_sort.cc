#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/codegen/node_loops.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Whether key a goes before b; NaN is greater than all.
std::string Before(const std::string& a, const std::string& b, DType dtype, bool descending) {
  const std::string &less = descending ? b : a, &more = descending ? a : b;
  std::string text = absl::StrCat(less, " < ", more);
  if (ir::IsFloat(dtype)) absl::StrAppend(&text, " || (", more, " != ", more, " && ", less, " == ", less, ")");
  return text;
}

// Runs of w become runs of 2 w, from keys "ka" and positions "pa" into "kb" and "pb", which then change names.
void PrintMerges(NodeLoops& p, const std::string& key, const std::string& right_first) {
  p.Open("for (long w = 1; w < n; w *= 2)");
  p.Open("for (long lo = 0; lo < n; lo += 2 * w)");
  p.Line("const long mid = lo + w < n ? lo + w : n, hi = lo + 2 * w < n ? lo + 2 * w : n;");
  p.Line("long l = lo, r = mid;");
  p.Open("for (long o = lo; o < hi; ++o)");
  p.Line(absl::StrCat("const bool right = r < hi && (l >= mid || (", right_first, "));"));
  p.Line("const long from = right ? r++ : l++;");
  p.Line("kb[o] = ka[from]; pb[o] = pa[from];");
  p.Close();
  p.Close();
  p.Line(absl::StrCat("{ ", key, "* t = ka; ka = kb; kb = t; long* u = pa; pa = pb; pb = u; }"));
  p.Close();
}

}  // namespace

// Bottom-up, of pairs (key, position).
void PrintSort(NodeLoops& p) {
  const NodeArray x = p.Operand(0), values = p.Result(0), positions = p.Result(1);
  const bool descending = p.node().Int("descending") != 0;
  const size_t dim = p.dim();
  const Expr n = x.shape[dim];
  const std::string key(CType(x.dtype)), count = p.Text(n);
  schedule::Index index = p.OpenItems(x.shape, AllDimsBut(x.shape.size(), dim));
  p.Line(absl::StrCat("const long n = ", count, ";"));
  p.Line(absl::StrCat("long* pa = (long*)", p.dialect().scratch, "; long* pb = pa + n;"));
  p.Line(absl::StrCat(key, "* ka = (", key, "*)(pb + n); ", key, "* kb = ka + n;"));
  p.OpenLoop("j", n);
  index[dim] = Expr::Symbol("j");
  p.Line(absl::StrCat("ka[j] = ", p.Load(x, index), "; pa[j] = j;"));
  p.Close();
  PrintMerges(p, key, Before("ka[r]", "ka[l]", x.dtype, descending));
  p.OpenLoop("m", n);
  index[dim] = Expr::Symbol("m");
  p.Store(values, index, "ka[m]");
  p.Store(positions, index, "pa[m]");
  p.Close();
  p.Close();
  p.kernel().work = n * Expr(16);
  p.kernel().scratch_bytes = n * Expr(2 * (8 + std::max<int64_t>(4, ir::DTypeSize(x.dtype)))) + Expr(64);
}

}  // namespace preheat::codegen
