#include "compiler/passes/align_products.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

constexpr int64_t kElements = 8;  // 16 bytes
constexpr double kMultiplications = 4294967296.0;
constexpr int64_t kRows = 64;  // fewer are a matrix times vectors, which reads the matrix once in any case

bool IsTransposed(Value v) {
  return v.node->op() == Op::kPermute && v.node->Ints("dims") == std::vector<int64_t>{1, 0};
}

int64_t Missing(int64_t size) { return (kElements - size % kElements) % kElements; }

// What to add to the three dimensions of [m, k] x [k, n]; nothing where the product is fine or small.
struct Added {
  int64_t m = 0, k = 0, n = 0;
};
std::optional<Added> WhatIsMissing(const Node& node, double multiplications) {
  if (node.op() != Op::kMatMul || node.results()[0].rank() != 2) return std::nullopt;
  const DType dtype = node.results()[0].dtype;
  if (dtype != DType::kF16 && dtype != DType::kBF16) return std::nullopt;
  const Value a = node.operand(0), b = node.operand(1);
  const std::optional<int64_t> m = a.shape()[0].constant(), k = a.shape()[1].constant(), n = b.shape()[1].constant();
  if (!m || !k || !n || std::min({*m, *k, *n}) < kRows) return std::nullopt;
  const double all = static_cast<double>(*m) * static_cast<double>(*k) * static_cast<double>(*n);
  if (all < multiplications) return std::nullopt;
  // Only along which some matrix is contiguous: rows of the result, rows of operands or of what they transpose.
  Added added;
  added.n = Missing(*n);
  if (!IsTransposed(a) || IsTransposed(b)) added.k = Missing(*k);
  if (IsTransposed(a)) added.m = Missing(*m);
  if (added.m + added.k + added.n == 0) return std::nullopt;
  return added;
}

// A matrix with zeros behind its rows and columns; what is transposed is padded before.
Value Padded(Builder& b, Value v, int64_t rows, int64_t columns) {
  if (rows + columns == 0) return v;
  if (IsTransposed(v)) return b.Permute(Padded(b, v.node->operand(0), columns, rows), {1, 0});
  return b.Emit(Op::kPad, {v},
                {{"low", std::vector<Expr>{Expr(0), Expr(0)}},
                 {"high", std::vector<Expr>{Expr(rows), Expr(columns)}},
                 {"value", ir::AttrValue(0.0)}});
}

Value Aligned(const Node& node, const Added& added, rewrite::Rebuild& r) {
  Builder& b = r.builder();
  Value left = Padded(b, r.Map(node.operand(0)), added.m, added.k);
  Value right = Padded(b, r.Map(node.operand(1)), added.k, added.n);
  Value product = b.MatMul(left, right);
  product = b.SliceDim(product, 0, Expr(0), node.results()[0].shape[0]);
  return b.SliceDim(product, 1, Expr(0), node.results()[0].shape[1]);
}

}  // namespace

absl::StatusOr<ir::Graph> AlignProductsFrom(const ir::Graph& graph, double multiplications) {
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const std::optional<Added> added = WhatIsMissing(node, multiplications);
    return added ? Aligned(node, *added, r) : Value();
  });
}

absl::StatusOr<ir::Graph> AlignProducts(const ir::Graph& graph) { return AlignProductsFrom(graph, kMultiplications); }

}  // namespace preheat::passes
