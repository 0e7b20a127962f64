#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/codegen/node_loops.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Row-major from dimension `from` on.
bool Dense(const NodeArray& a, size_t from) {
  Expr stride(1);
  for (size_t d = a.shape.size(); d-- > from;) {
    if (a.shape[d] != Expr(1) && a.strides[d] != stride) return false;
    stride = stride * a.shape[d];
  }
  return true;
}

// Columns behind `dim`, taken together when they lie densely in all three arrays.
class PutRows {
 public:
  explicit PutRows(NodeLoops& p)
      : p_(p), dim_(p.dim()), x_(p.OperandOfPut(0)), index_(p.OperandOfPut(1)), src_(p.Operand(2)), y_(p.Result(0)) {
    columns_.assign(x_.shape.begin() + dim_ + 1, x_.shape.end());
    dense_ = Dense(x_, dim_ + 1) && Dense(y_, dim_ + 1) && Dense(src_, dim_ + index_.shape.size());
  }

  void Print() {
    OpenItems();
    const Expr n = x_.shape[dim_], rows = ir::NumElements(index_.shape);
    ir::Ranges ranges = p_.sizes();
    p_.Local("c");
    ranges.Set("c", 0, ir::NumElements(columns_) - 1);
    column_ = schedule::Unflatten(Expr::Symbol("c"), columns_, ranges);
    p_.OpenLoop("j", n);
    ForColumns([&] { Copy({Expr::Symbol("j")}); });
    p_.Close();
    p_.OpenLoop("k", rows);
    ranges.Set("k", 0, rows - 1);
    const schedule::Index k = schedule::Unflatten(Expr::Symbol("k"), index_.shape, ranges);
    p_.DefineChecked(CastText(p_.Load(index_, k), index_.dtype, DType::kI64, p_.math()), n, ErrorSite::kPutRows);
    ForColumns([&] { Put(k); });
    p_.Close();
    p_.Close();
    p_.kernel().work = (n + rows) * Expr(p_.dialect().columns);
  }

 private:
  // "c0" is an item's first column, "cn" how many it has.
  void OpenItems() {
    const int each = p_.dialect().columns;
    const Expr count = ir::NumElements(columns_);
    std::vector<Expr> shape(x_.shape.begin(), x_.shape.begin() + dim_);
    shape.push_back(Expr::CeilDiv(count, each));
    item_ = p_.OpenItems(shape, AllDims(dim_ + 1));
    p_.Line(absl::StrCat("const long c0 = i", dim_, " * ", each, ";"));
    p_.Line(absl::StrCat("const long cn = ", p_.Text(count), " - c0 < ", each, " ? ", p_.Text(count), " - c0 : ", each,
                         ";"));
  }

  void ForColumns(const std::function<void()>& body) {
    if (p_.dialect().simd) p_.Line("#pragma omp simd");
    p_.Open("for (long ci = 0; ci < cn; ++ci)");
    p_.Line("const long c = c0 + ci;");
    body();
    p_.Close();
  }

  void Copy(const schedule::Index& row) {
    const std::string value = x_.constant.empty() ? LoadText(Element(x_, row), x_.dtype, p_.math()) : x_.constant;
    p_.Line(absl::StrCat(Element(y_, row), " = ", p_.Converted(value, y_.dtype), ";"));
  }

  void Put(const schedule::Index& k) {
    const std::string to = Element(y_, {Expr::Symbol("at")});
    const std::string value = p_.Reduced(p_.node().String("reduce"), LoadText(to, y_.dtype, p_.math()),
                                         LoadText(Element(src_, k), src_.dtype, p_.math()), y_.dtype);
    p_.Line(absl::StrCat(to, " = ", p_.Converted(value, y_.dtype), ";"));
  }

  // Column "c" of a row.
  std::string Element(const NodeArray& a, const schedule::Index& row) {
    schedule::Index at(item_.begin(), item_.begin() + dim_);
    at.insert(at.end(), row.begin(), row.end());
    if (!dense_) {
      at.insert(at.end(), column_.begin(), column_.end());
      return p_.Element(a, at);
    }
    NodeArray from_column = a;
    from_column.offset = a.offset + Expr::Symbol("c");
    return p_.Element(from_column, at);
  }

  NodeLoops& p_;
  const size_t dim_;
  const NodeArray x_, index_, src_, y_;
  std::vector<Expr> columns_;  // sizes
  bool dense_ = false;
  schedule::Index item_, column_;
};

}  // namespace

void PrintPutRows(NodeLoops& p) { PutRows(p).Print(); }

}  // namespace preheat::codegen
