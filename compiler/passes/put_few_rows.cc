#include "compiler/passes/put_few_rows.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

using ir::DType;
using ir::Expr;
using ir::Op;
using ir::Value;

constexpr int64_t kFewRows = 8;  // each is a way through all of what is added
constexpr int64_t kManyPlaces = 256;

bool Applies(const ir::Node& node) {
  if (node.op() != Op::kPutRows || node.Int("dim") != 0 || node.String("reduce") != "add") return false;
  const ir::TensorType &x = node.operand(0).type(), &index = node.operand(1).type();
  if (x.dtype != DType::kF32 && x.dtype != DType::kF64) return false;
  if (index.rank() != 1 || x.rank() < 2) return false;
  auto rows = x.shape[0].constant(), places = index.shape[0].constant(), all = x.NumElements().constant();
  return rows && places && all && *rows > 0 && *rows <= kFewRows && *places >= kManyPlaces;
}

// x + the sum over places of (row == index[place] ? src[place] : 0).
Value AsSum(ir::Builder& b, ir::Attrs rows_of, Value x, Value index, Value src) {
  const Expr places = index.shape()[0], rows = x.shape()[0];
  std::vector<Expr> all = {places, rows}, one_row = {places, Expr(1)}, numbers = {places};
  for (size_t d = 1; d < x.shape().size(); ++d) {
    all.push_back(x.shape()[d]);
    one_row.push_back(x.shape()[d]);
    numbers.push_back(Expr(1));
  }
  numbers.push_back(Expr(1));
  Value checked = b.Emit(Op::kTake, {b.Iota(DType::kI64, {rows}, 0), index}, std::move(rows_of));
  Value named = b.BroadcastTo(b.Reshape(checked, numbers), all);
  Value here = b.Binary(Op::kEq, named, b.Iota(DType::kI64, all, 1));
  Value added = b.BroadcastTo(b.Reshape(src, one_row), all);
  Value chosen = b.Where(here, added, b.Fill(ir::Scalar(0.0), x.dtype(), all));
  return b.Add(x, b.Reduce(Op::kReduceSum, chosen, {0}, /*keepdim=*/false));
}

}  // namespace

absl::StatusOr<ir::Graph> PutFewRows(const ir::Graph& graph) {
  rewrite::Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) {
    if (Applies(node)) {
      r.builder().SetDebugId(node.debug_id());
      ir::Attrs rows_of = node.attrs();
      rows_of.erase("reduce");
      r.Replace(node.result(), AsSum(r.builder(), std::move(rows_of), r.Map(node.operand(0)), r.Map(node.operand(1)),
                                     r.Map(node.operand(2))));
    } else {
      RETURN_IF_ERROR(r.Copy(node));
    }
  }
  return r.Finish();
}

}  // namespace preheat::passes
