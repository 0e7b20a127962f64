#include "compiler/passes/reduce_in_steps.h"

#include <algorithm>
#include <utility>

namespace preheat::passes {

using ir::Builder;
using ir::Expr;
using ir::Value;

Value SplitDim(Builder& b, Value x, int64_t dim, int64_t parts) {
  std::vector<Expr> shape = x.shape();
  const int64_t size = *shape[dim].constant();
  shape[dim] = parts;
  shape.insert(shape.begin() + dim + 1, Expr(size / parts));
  return b.Reshape(x, std::move(shape));
}

Value ReduceInSteps(Builder& b, ir::Op op, Value x, const std::vector<int64_t>& first, std::vector<int64_t> second) {
  for (int64_t& d : second) d -= std::count_if(first.begin(), first.end(), [&](int64_t f) { return f < d; });
  if (!first.empty()) x = b.Emit(op, {x}, {{"dims", first}});
  return second.empty() ? x : b.Emit(op, {x}, {{"dims", std::move(second)}});
}

}  // namespace preheat::passes
