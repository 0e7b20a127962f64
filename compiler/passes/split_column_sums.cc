#include "compiler/passes/split_column_sums.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Expr;
using ir::Op;
using ir::Value;

struct Extent {
  int64_t rows = 1, columns = 1;
  bool operator<(const Extent& o) const { return std::pair(rows, columns) < std::pair(o.rows, o.columns); }
};

// What a reduction's operand is when its first `leading` dimensions are rows; nothing when a size is not known.
std::optional<Extent> ExtentOf(const std::vector<Expr>& shape, size_t leading) {
  Extent extent;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!shape[d].constant()) return std::nullopt;
    (d < leading ? extent.rows : extent.columns) *= *shape[d].constant();
  }
  return extent;
}

// True when exactly the dimensions [begin, end) are reduced.
bool Reduces(const ir::Node& node, size_t begin, size_t end) {
  const std::vector<int64_t>& dims = node.Ints("dims");
  if (dims.size() != end - begin) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(begin + i)) return false;
  }
  return true;
}

bool IsFold(const ir::Node& node) { return node.op() >= Op::kReduceSum && node.op() <= Op::kReduceAll; }

// Extents whose rows are reduced somewhere.
std::set<Extent> ReducedRows(const ir::Graph& graph) {
  std::set<Extent> extents;
  for (const ir::Node& node : graph.nodes()) {
    if (!IsFold(node)) continue;
    const std::vector<Expr>& shape = node.operand(0).shape();
    const size_t reduced = node.Ints("dims").size();
    if (reduced >= shape.size() || !Reduces(node, shape.size() - reduced, shape.size())) continue;
    if (auto extent = ExtentOf(shape, shape.size() - reduced)) extents.insert(*extent);
  }
  return extents;
}

int64_t BlockOf(const Extent& extent) {
  for (int64_t block = kMostBlock; block >= kLeastBlock; --block) {
    if (extent.rows % block == 0 && extent.rows / block >= kLeastBlocks) return block;
  }
  return 0;
}

// The sum over blocks of rows, then over blocks; null when the node stays.
Value SumTwice(ir::Builder& b, const ir::Node& node, Value x, const std::set<Extent>& rows) {
  if (node.op() != Op::kReduceSum || !ir::IsFloat(x.dtype())) return {};
  const size_t reduced = node.Ints("dims").size();
  if (reduced == 0 || reduced >= x.shape().size() || !Reduces(node, 0, reduced)) return {};
  auto extent = ExtentOf(x.shape(), reduced);
  if (!extent || rows.count(*extent) == 0 || extent->rows * extent->columns < kLeastColumnSum) return {};
  const int64_t block = BlockOf(*extent);
  if (block == 0) return {};
  x = b.Reshape(x, {Expr(extent->rows / block), Expr(block), Expr(extent->columns)});
  for (int64_t dim : {1, 0}) x = b.Emit(Op::kReduceSum, {x}, {{"dims", std::vector<int64_t>{dim}}});
  return b.Reshape(x, node.results()[0].shape);
}

}  // namespace

absl::StatusOr<ir::Graph> SplitColumnSums(const ir::Graph& graph) {
  const std::set<Extent> rows = ReducedRows(graph);
  return rewrite::ReplaceWhere(graph, [&](const ir::Node& node, rewrite::Rebuild& r) {
    if (rows.empty() || !IsFold(node)) return Value();
    return SumTwice(r.builder(), node, r.Map(node.operand(0)), rows);
  });
}

}  // namespace preheat::passes
