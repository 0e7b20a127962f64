#include "compiler/codegen/node_loops.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace preheat::codegen {

using ir::Expr;
using ir::Op;

NodeArray NodeLoops::OperandOfPut(int i) {
  const ir::Value into = node().operand(0);
  const bool fill = into.node->op() == Op::kFill && into != node().operand(2);
  return fill && node().operand(i) == into ? Filled(i) : Operand(i);
}

schedule::Index NodeLoops::OpenItems(const std::vector<Expr>& shape, const std::vector<size_t>& dims) {
  schedule::Index index(shape.size(), Expr(0));
  kernel().extent = 1;
  Open(absl::StrCat("for (long item = begin; item < end; ", dialect_.next, ")"));
  Line("long q = item;");
  for (size_t k = dims.size(); k-- > 0;) {
    const size_t d = dims[k];
    const std::string var = absl::StrCat("i", d);
    index[d] = Local(var);
    Line(absl::StrCat("const long ", var, " = q % ", Text(shape[d]), ";"));
    Line(absl::StrCat("q /= ", Text(shape[d]), ";"));
    kernel().extent = kernel().extent * shape[d];
  }
  Line("(void)q;");
  return index;
}

void NodeLoops::OpenLoop(const std::string& var, const Expr& size) {
  Local(var);
  Open(absl::StrCat("for (long ", var, " = 0; ", var, " < ", Text(size), "; ++", var, ")"));
}

void NodeLoops::Store(const NodeArray& a, const schedule::Index& index, const std::string& value) {
  Line(absl::StrCat(Element(a, index), " = ", Converted(value, a.dtype), ";"));
}

void NodeLoops::DefineChecked(const std::string& value, const Expr& n, ErrorSite site) {
  const std::string size = Text(n);
  Line(absl::StrCat("long at = ", value, ";"));
  if (node().CountsFromEnd()) Line(absl::StrCat("at = at < 0 ? at + ", size, " : at;"));
  Line(absl::StrCat("if ((unsigned long)at >= (unsigned long)", size, ") { bad = ", static_cast<int>(site),
                    "; continue; }"));
  Local("at");
  kernel().checks = true;
}

std::vector<size_t> AllDims(size_t rank) {
  std::vector<size_t> dims(rank);
  std::iota(dims.begin(), dims.end(), size_t{0});
  return dims;
}

std::vector<size_t> AllDimsBut(size_t rank, size_t dim) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < rank; ++d) {
    if (d != dim) dims.push_back(d);
  }
  return dims;
}

void PrintNode(NodeLoops& p) {
  switch (p.node().op()) {
    case Op::kScatter: return PrintScatter(p);
    case Op::kPutRows: return PrintPutRows(p);
    case Op::kSort: return PrintSort(p);
    default: return PrintScan(p);
  }
}

}  // namespace preheat::codegen
