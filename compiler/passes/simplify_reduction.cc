#include <algorithm>

#include "compiler/passes/simplify.h"

namespace preheat::passes {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules
using ir::Builder;
using ir::Expr;
using ir::Op;
using ir::Value;

// Each result has one input, which it then is.
bool OverOnes(const Match& m) {
  const std::vector<int64_t>& dims = m.root.node->Ints("dims");
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return x(m).shape()[d] == Expr(1); });
}

Value ReshapeX(const Match& m, Builder& b) { return b.Reshape(x(m), m.root.shape()); }

// Dimension numbers of `inner`'s operand that the outer reduction drops, and the inner ones.
Value ReduceOnce(const Match& m, Builder& b) {
  const std::vector<int64_t>&outer = m.nodes[0]->Ints("dims"), &inner = m.nodes[1]->Ints("dims");
  std::vector<int64_t> dims;
  int64_t kept = 0;  // dimensions of x that the inner reduction keeps, so far
  for (int64_t d = 0; d < x(m).type().rank(); ++d) {
    bool gone = std::find(inner.begin(), inner.end(), d) != inner.end();
    if (gone || std::find(outer.begin(), outer.end(), kept) != outer.end()) dims.push_back(d);
    if (!gone) ++kept;
  }
  return b.Emit(m.root.node->op(), {x(m)}, {{"dims", std::move(dims)}});
}

bool OverNothing(const Match& m) { return x(m).shape().back() == Expr(0); }

Value Zeros(const Match& m, Builder& b) {
  const ir::DType dtype = m.root.dtype();
  return b.Fill(ir::IsFloat(dtype) ? ir::Scalar(0.0) : ir::Scalar(int64_t{0}), dtype, m.root.shape());
}

}  // namespace

RuleSet ReductionRules() {
  RuleSet tables = {{Op::kMatMul, {{"product over nothing = 0", Is(Op::kMatMul, {x, y}), Zeros, OverNothing}}}};
  for (Op op : {Op::kReduceSum, Op::kReduceProd, Op::kReduceMax, Op::kReduceMin, Op::kReduceAny, Op::kReduceAll}) {
    std::vector<Rule> rules = {{"reduction of single elements = x", Is(op, {x}), ReshapeX, OverOnes}};
    // Sums and products would change their rounding.
    if (op != Op::kReduceSum && op != Op::kReduceProd) {
      rules.push_back({"max over max = max over both", Is(op, {Is(op, {x})}), ReduceOnce});
    }
    tables.push_back({op, std::move(rules)});
  }
  return tables;
}

}  // namespace preheat::passes
