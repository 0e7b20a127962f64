// Copies, casts, padding, and writes into a part of a tensor as a new value.

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

// --- Padding ---

// Pairs (low, high) of the last dimensions, last one first; negative ones cut.
Value PadConstant(OpContext& c, Value x, const std::vector<Expr>& pairs, double value) {
  int rank = RankOf(x);
  if (pairs.size() % 2 != 0 || static_cast<int>(pairs.size() / 2) > rank) {
    c.Refuse("padding does not fit the rank");
    return {};
  }
  std::vector<Expr> low(rank, Expr(0)), high(rank, Expr(0));
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    int dim = rank - 1 - static_cast<int>(i);
    Expr cut_low = Expr::Max(Expr(0) - pairs[2 * i], 0), cut_high = Expr::Max(Expr(0) - pairs[2 * i + 1], 0);
    low[dim] = Expr::Max(pairs[2 * i], 0);
    high[dim] = Expr::Max(pairs[2 * i + 1], 0);
    if (cut_low == Expr(0) && cut_high == Expr(0)) continue;
    if (!x) return x;
    x = c.b.SliceDim(x, dim, cut_low, x.shape()[dim] - cut_low - cut_high);
  }
  if (!x) return x;
  return c.b.Emit(
      Op::kPad, {x},
      {{"low", low},
       {"high", high},
       {"value", std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(value, x.dtype()))}});
}

void ConstantPad(OpContext& c) { c.Set(PadConstant(c, c.Tensor("self"), c.Sizes("pad"), c.Double("value", 0))); }

// Indices 0..n-1 widened by `low` and `high`, folded back by the mode.
Value PadIndices(OpContext& c, const std::string& mode, const Expr& size, const Expr& low, const Expr& high) {
  Builder& b = c.b;
  Expr total = size + low + high;
  Value at = b.Sub(b.Iota(DType::kI64, {total}, 0), b.Size(low));
  Value last = b.Size(size - 1), zero = b.Size(0);
  if (mode == "replicate") return b.Binary(Op::kMin, b.Binary(Op::kMax, at, zero), last);
  if (mode == "circular") return b.Binary(Op::kMod, at, b.Size(size));
  Value folded = b.Unary(Op::kAbs, at);  // reflect: |i|, then from the other end
  return b.Sub(last, b.Unary(Op::kAbs, b.Sub(last, folded)));
}

Value PadByMode(OpContext& c, Value x, const std::string& mode, const std::vector<Expr>& pairs) {
  int rank = RankOf(x);
  if (pairs.size() % 2 != 0 || static_cast<int>(pairs.size() / 2) > rank) {
    c.Refuse("padding does not fit the rank");
    return {};
  }
  for (size_t i = 0; i < pairs.size() / 2 && x; ++i) {
    int64_t dim = rank - 1 - static_cast<int>(i);
    if (pairs[2 * i].constant().value_or(0) < 0 || pairs[2 * i + 1].constant().value_or(0) < 0)
      c.Refuse("negative padding");
    if (pairs[2 * i] == Expr(0) && pairs[2 * i + 1] == Expr(0)) continue;
    Value index = PadIndices(c, mode, x.shape()[dim], pairs[2 * i], pairs[2 * i + 1]);
    x = c.b.Emit(Op::kTake, {x, index}, {{"dim", dim}});
  }
  return x;
}

void Pad(OpContext& c) {
  std::string mode = c.Text("mode", "constant");
  if (mode == "constant") return c.Set(PadConstant(c, c.Tensor("self"), c.Sizes("pad"), c.Double("value", 0)));
  if (mode != "reflect" && mode != "replicate" && mode != "circular") return c.Refuse(mode);
  c.Set(PadByMode(c, c.Tensor("self"), mode, c.Sizes("pad")));
}
void ReflectionPad(OpContext& c) { c.Set(PadByMode(c, c.Tensor("self"), "reflect", c.Sizes("padding"))); }
void ReplicationPad(OpContext& c) { c.Set(PadByMode(c, c.Tensor("self"), "replicate", c.Sizes("padding"))); }

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

// Elements of the diagonal are taken from the source by their row or column number.
void DiagonalScatter(OpContext& c) {
  Value x = c.Tensor("self"), src = c.Operand("src", c.ResultType().dtype);
  if (!x || RankOf(x) < 2) return c.Refuse("a diagonal of fewer than two dimensions");
  int rank = RankOf(x);
  int64_t offset = c.Int("offset", 0), a = c.Wrap(c.Int("dim1", 0), rank), z = c.Wrap(c.Int("dim2", 1), rank);
  if (a != rank - 2 || z != rank - 1) return c.Refuse("a diagonal of other than the last two dimensions");
  std::vector<Expr> matrix(x.shape().end() - 2, x.shape().end());
  Value row = c.b.Iota(DType::kI64, matrix, 0), column = c.b.Iota(DType::kI64, matrix, 1);
  Value on = c.b.Binary(Op::kEq, c.b.Binary(Op::kAdd, row, Scalar(offset)), column);
  if (!src || RankOf(src) == 0) return c.Refuse("a source without a dimension");
  Expr before = offset < 0 ? -offset : 0, rest = matrix[0] - before - src.shape().back();
  std::vector<Expr> low(rank - 1, Expr(0)), high(rank - 1, Expr(0));
  low.back() = before;
  high.back() = rest;
  Value by_row =
      c.b.Emit(Op::kPad, {src},
               {{"low", low},
                {"high", high},
                {"value", std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, src.dtype()))}});
  Value spread = c.b.BroadcastTo(c.b.Unsqueeze(by_row, -1), x.shape());
  c.Set(c.b.Where(c.b.BroadcastTo(on, x.shape()), spread, x));
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
      {"aten.constant_pad_nd.default", ConstantPad},
      {"aten.pad.default", Pad},
      {"aten.reflection_pad1d.default", ReflectionPad},
      {"aten.reflection_pad2d.default", ReflectionPad},
      {"aten.reflection_pad3d.default", ReflectionPad},
      {"aten.replication_pad1d.default", ReplicationPad},
      {"aten.replication_pad2d.default", ReplicationPad},
      {"aten.replication_pad3d.default", ReplicationPad},
      {"aten.slice_scatter.default", SliceScatter},
      {"aten.select_scatter.default", SelectScatter},
      {"aten.diagonal_scatter.default", DiagonalScatter},
      {"aten.dropout.default", Dropout},
      {"aten.feature_dropout.default", Dropout},
      {"aten.alpha_dropout.default", Dropout},
      {"aten.native_dropout.default", Dropout},
  };
  table.insert(table.end(), others.begin(), others.end());
  return table;
}

}  // namespace preheat::decompose
