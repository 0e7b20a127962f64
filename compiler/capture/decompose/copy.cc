// Copies, casts, and writes into a part of a tensor as a new value.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/decompose/slices.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// The operand, cast to the dtype that the result has: clone, contiguous, to.
void Copy(OpContext& c) { c.Set(c.Tensor("self")); }

// copy(self, src): src in self's type.
void CopyFrom(OpContext& c) { c.Set(c.Tensor("src")); }

void Fill(OpContext& c) { c.Set(c.Operand("value", c.ResultType().dtype)); }
void Zero(OpContext& c) { c.Set(c.Fill(0, c.ResultType().dtype)); }

// --- Parts replaced ---

// x with `src` in place of its elements start to start + size along a dimension.
Value ReplaceRun(OpContext& c, Value x, Value src, int64_t dim, const Expr& start, const Expr& size) {
  if (!x) return x;
  const Expr& whole = x.shape()[dim];
  std::vector<Value> parts;
  if (start != Expr(0)) parts.push_back(c.b.SliceDim(x, dim, 0, start));
  parts.push_back(src);
  Expr end = start + size;
  if (end != whole) parts.push_back(c.b.SliceDim(x, dim, end, whole - end));
  return c.b.Concat(parts, dim);
}

// The number of elements of a slice, as torch counts them.
Expr SliceLength(const Expr& start, const Expr& end, const Expr& whole, int64_t step) {
  Expr stop = end.constant().value_or(0) < 0 ? end + whole : end;
  if (stop.constant().value_or(0) >= int64_t{1} << 47) stop = whole;
  Expr bounded = Expr::Min(stop, whole);
  return Expr::CeilDiv(Expr::Max(bounded - start, 0), step);
}

void SliceScatter(OpContext& c) {
  Value x = c.Tensor("self"), src = c.Operand("src", c.ResultType().dtype);
  if (!x || !src || RankOf(x) == 0) return c.Refuse("a slice of a 0-d tensor");
  int64_t dim = c.Wrap(c.Int("dim", 0), RankOf(x)), step = c.Int("step", 1);
  Expr start = SliceStart(c.Size("start", 0), x.shape()[dim]);
  // The source, which eager expands to the slice, says how long it is; one element may stand for many.
  Expr length = RankOf(src) == RankOf(x) ? src.shape()[dim] : Expr(1);
  if (length == Expr(1)) length = SliceLength(start, c.Size("end", int64_t{1} << 48), x.shape()[dim], step);
  std::vector<Expr> shape = x.shape();
  shape[dim] = length;
  src = c.b.BroadcastTo(src, shape);
  if (step == 1) return c.Set(ReplaceRun(c, x, src, dim, start, length));
  Value rows = c.b.Binary(Op::kMul, c.b.Iota(DType::kI64, {length}, 0), Scalar(step));
  c.Set(
      c.b.Emit(Op::kPutRows, {x, c.b.Add(rows, c.b.Size(start)), src}, {{"dim", dim}, {"reduce", std::string("set")}}));
}

void SelectScatter(OpContext& c) {
  Value x = c.Tensor("self"), src = c.Operand("src", c.ResultType().dtype);
  if (!x || RankOf(x) == 0) return c.Refuse("a row of a 0-d tensor");
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  Expr index = c.Size("index");
  if (index.constant().value_or(0) < 0) index = index + x.shape()[dim];
  std::vector<Expr> shape = x.shape();
  shape.erase(shape.begin() + dim);
  c.Set(ReplaceRun(c, x, c.b.Unsqueeze(c.b.BroadcastTo(src, shape), dim), dim, index, 1));
}

// --- Diagonals: elements of two dimensions where column = row + offset ---

// The two dimensions of a diagonal, its offset, and the order of dimensions that puts them last.
struct DiagonalOf {
  int64_t offset;
  std::vector<int64_t> order, back;
};
DiagonalOf ReadDiagonal(OpContext& c, int rank, int64_t dim1, int64_t dim2) {
  DiagonalOf d{.offset = c.Int("offset", 0), .order = {}, .back = std::vector<int64_t>(rank)};
  int64_t row = c.Wrap(c.Int("dim1", dim1), rank), column = c.Wrap(c.Int("dim2", dim2), rank);
  for (int64_t i = 0; i < rank; ++i) {
    if (i != row && i != column) d.order.push_back(i);
  }
  d.order.insert(d.order.end(), {row, column});
  for (int i = 0; i < rank; ++i) d.back[d.order[i]] = i;
  return d;
}

// Matrices, which are x's last two dimensions, with the elements of `src` on their diagonal: they are taken from the
// source by their row.
Value PutOnDiagonal(OpContext& c, Value x, Value src, int64_t offset) {
  int rank = RankOf(x);
  if (rank < 2 || RankOf(src) == 0) {
    c.Refuse("a diagonal of fewer than two dimensions");
    return {};
  }
  std::vector<Expr> matrix(x.shape().end() - 2, x.shape().end());
  Value row = c.b.Iota(DType::kI64, matrix, 0), column = c.b.Iota(DType::kI64, matrix, 1);
  Value on = c.b.Binary(Op::kEq, c.b.Binary(Op::kAdd, row, Scalar(offset)), column);
  Expr before = offset < 0 ? -offset : 0;
  std::vector<Expr> low(RankOf(src), Expr(0)), high(RankOf(src), Expr(0));
  low.back() = before;
  high.back() = matrix[0] - before - src.shape().back();
  ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, src.dtype()));
  Value by_row = c.b.Emit(Op::kPad, {src}, {{"low", low}, {"high", high}, {"value", zero}});
  Value spread = c.b.BroadcastTo(c.b.Unsqueeze(by_row, -1), x.shape());
  return c.b.Where(c.b.BroadcastTo(on, x.shape()), spread, x);
}

void DiagonalScatter(OpContext& c) {
  Value x = c.Tensor("self"), src = c.Operand("src", c.ResultType().dtype);
  if (RankOf(x) < 2) return c.Refuse("a diagonal of fewer than two dimensions");
  DiagonalOf d = ReadDiagonal(c, RankOf(x), 0, 1);
  c.Set(c.b.Permute(PutOnDiagonal(c, c.b.Permute(x, d.order), src, d.offset), d.back));
}

// Zeros with a diagonal: of a vector, and as the gradient of taking one.
LowerFn DiagonalOfZeros(const char* source, int64_t dim1, int64_t dim2) {
  return [=](OpContext& c) {
    Value src = c.Tensor(source);
    int rank = c.ResultType().rank();
    if (rank < 2 || !src) return c.Refuse("a diagonal of fewer than two dimensions");
    DiagonalOf d = ReadDiagonal(c, rank, dim1, dim2);
    std::vector<Expr> shape;
    for (int64_t i : d.order) shape.push_back(c.ResultShape()[i]);
    c.Set(c.b.Permute(PutOnDiagonal(c, c.Fill(0, src.dtype(), shape), src, d.offset), d.back));
  };
}

// Matrices side by side along both dimensions, zeros elsewhere.
void BlockDiagonal(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, dtype));
  std::vector<Value> bands;
  Expr before = 0;
  for (Value part : c.Tensors("tensors")) {
    if (!part) return c.Refuse("no tensor");
    Value x = c.b.Cast(part, dtype);
    if (RankOf(x) < 2) x = c.b.Reshape(x, {Expr(1), x.type().NumElements()});
    if (!x) return;
    std::vector<Expr> low = {Expr(0), before}, high = {Expr(0), c.ResultShape()[1] - before - x.shape()[1]};
    before = before + x.shape()[1];
    bands.push_back(c.b.Emit(Op::kPad, {x}, {{"low", low}, {"high", high}, {"value", zero}}));
  }
  if (bands.empty()) return c.Refuse("nothing to join");
  c.Set(c.b.Concat(bands, 0));
}

// Outside training it changes nothing; in training it is random, which only the extern handler can be.
void Dropout(OpContext& c) {
  if (c.Bool("train", true) && c.Double("p", 0.5) != 0) return c.Refuse("random numbers");
  c.Set(0, c.Tensor("input"));
  if (c.Wanted(1)) c.Set(1, c.Fill(1, DType::kBool, c.ResultShape(1)));
}

}  // namespace

OpTable CopyOps() {
  OpTable table;
  for (const char* name :
       {"aten.clone.default", "aten.contiguous.default", "aten.to.dtype", "aten.to.device", "aten.to.dtype_layout",
        "aten.to.other", "aten._to_copy.default", "aten.type_as.default", "aten.lift_fresh_copy.default",
        "aten.detach_copy.default", "aten.alias_copy.default", "aten._cast_Float.default", "aten.cpu.default"}) {
    table.emplace_back(name, Copy);
  }
  const OpTable others = {
      {"aten.copy.default", CopyFrom},
      {"aten.fill.Scalar", Fill},
      {"aten.fill.Tensor", Fill},
      {"aten.zero.default", Zero},
      {"aten.slice_scatter.default", SliceScatter},
      {"aten.select_scatter.default", SelectScatter},
      {"aten.diagonal_scatter.default", DiagonalScatter},
      {"aten.diag_embed.default", DiagonalOfZeros("self", -2, -1)},
      {"aten.diagonal_backward.default", DiagonalOfZeros("grad_output", 0, 1)},
      {"aten.block_diag.default", BlockDiagonal},
      {"aten.dropout.default", Dropout},
      {"aten.feature_dropout.default", Dropout},
      {"aten.alpha_dropout.default", Dropout},
      {"aten.native_dropout.default", Dropout},
  };
  table.insert(table.end(), others.begin(), others.end());
  return table;
}

}  // namespace preheat::decompose
