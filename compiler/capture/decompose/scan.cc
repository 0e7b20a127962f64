// Running sums and extremes, sorting and order statistics, differences between neighbours.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

LowerFn Scan(Op op) {
  return [op](OpContext& c) {
    Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
    if (RankOf(x) == 0) return c.Set(x);
    c.Set(c.b.Emit(op, {x}, {{"dim", c.Wrap(c.Int("dim"), RankOf(x))}}));
  };
}

// The running maximum or minimum and the position of its last occurrence. Once a NaN was met, only NaNs count.
LowerFn Running(Op op) {
  return [op](OpContext& c) {
    Value x = c.Tensor("self");
    if (!x) return;
    if (RankOf(x) == 0) {
      c.Set(0, x);
      return c.Set(1, c.Fill(0, DType::kI64));
    }
    ir::Attrs along = {{"dim", c.Wrap(c.Int("dim"), RankOf(x))}};
    Value wide = x.dtype() == DType::kBool ? c.b.Cast(x, DType::kU8) : x;
    Value values = c.b.Emit(op, {wide}, along);
    c.Set(0, values);
    if (!c.Wanted(1)) return;
    Value here = c.b.Binary(Op::kEq, wide, values);
    if (ir::IsFloat(wide.dtype())) here = c.b.Binary(Op::kOr, here, c.b.Unary(Op::kIsNan, wide));
    Value position = c.b.Iota(DType::kI64, x.shape(), static_cast<int>(std::get<int64_t>(along.at("dim"))));
    c.Set(1, c.b.Emit(Op::kScanMax, {c.b.Where(here, position, Like(c.b, position, 0))}, along));
  };
}

// Among equals eager's order is its own unless a stable sort is asked for. Integers have many equals: where their
// positions are used, only eager can give the ones it would give.
void RefuseTies(OpContext& c, Value x, int positions) {
  if (!x || ir::IsFloat(x.dtype())) return;
  if (c.Wanted(positions) && !c.Bool("stable", false)) c.Refuse("the order of equals");
}

// Results: values, positions.
std::vector<Value> SortBy(OpContext& c, Value x, int64_t dim, bool descending) {
  if (RankOf(x) == 0) return {x, c.b.Fill(Scalar(int64_t{0}), DType::kI64)};
  std::vector<Value> sorted = c.b.EmitAll(Op::kSort, {x}, {{"dim", dim}, {"descending", int64_t{descending}}});
  return sorted.size() == 2 ? sorted : std::vector<Value>(2);
}

void Sort(OpContext& c) {
  Value x = c.Tensor("self");
  RefuseTies(c, x, 1);
  std::vector<Value> sorted = SortBy(c, x, c.Wrap(c.Int("dim", -1), RankOf(x)), c.Bool("descending", false));
  c.Set(0, sorted[0]);
  c.Set(1, sorted[1]);
}

void ArgSort(OpContext& c) {
  Value x = c.Tensor("self");
  RefuseTies(c, x, 0);
  c.Set(SortBy(c, x, c.Wrap(c.Int("dim", -1), RankOf(x)), c.Bool("descending", false))[1]);
}

// The first k of the sorted ones.
void TopK(OpContext& c) {
  Value x = c.Tensor("self");
  RefuseTies(c, x, 1);
  int64_t dim = c.Wrap(c.Int("dim", -1), RankOf(x));
  std::vector<Value> sorted = SortBy(c, x, dim, c.Bool("largest", true));
  if (RankOf(x) == 0) {
    c.Set(0, sorted[0]);
    return c.Set(1, sorted[1]);
  }
  for (int i : {0, 1}) c.Set(i, c.b.SliceDim(sorted[i], dim, 0, c.Size("k")));
}

// --- Order statistics: elements of the sorted operand ---

// Element k, counted from 0, along a dimension, which is dropped; k is a 0-d i64 or has a size of 1 there.
Value ElementAt(OpContext& c, Value sorted, Value k, int64_t dim) {
  if (!sorted || !k) return {};
  std::vector<Expr> shape = sorted.shape();
  shape[dim] = 1;
  return c.b.Squeeze(c.b.Emit(Op::kGather, {sorted, c.b.BroadcastTo(k, shape)}, {{"dim", dim}}), dim);
}

// The k-th value and its position; without a dimension, of all elements.
template <typename Rank>
void OrderStatistic(OpContext& c, const Rank& rank) {
  Value x = c.Tensor("self");
  if (!x) return;
  RefuseTies(c, x, 1);
  bool whole = c.num_results() == 1;  // median without a dimension
  Value row = whole || RankOf(x) == 0 ? c.b.Reshape(x, {x.type().NumElements()}) : x;
  int64_t dim = whole || RankOf(x) == 0 ? 0 : c.Wrap(c.Int("dim", -1), RankOf(x));
  if (!row || row.shape()[dim] == Expr(0)) return c.Refuse("nothing to choose from");
  std::vector<Value> sorted = SortBy(c, row, dim, /*descending=*/false);
  Value k = rank(sorted[0], dim);
  for (int i = 0; i < c.num_results(); ++i) {
    if (c.Wanted(i)) c.Set(i, c.b.Reshape(ElementAt(c, sorted[i], k, dim), c.ResultShape(i)));
  }
}

void KthValue(OpContext& c) {
  OrderStatistic(c, [&](Value, int64_t) { return c.b.Size(c.Size("k") - 1); });
}

// The lower median; NaN, which sorts last, if there is one.
void Median(OpContext& c) {
  OrderStatistic(c, [&](Value sorted, int64_t dim) -> Value {
    if (!sorted) return {};
    const Expr& size = sorted.shape()[dim];
    Value middle = c.b.Size(Expr::FloorDiv(size - 1, 2));
    if (!ir::IsFloat(sorted.dtype())) return middle;
    Value last = c.b.Unary(Op::kIsNan, c.b.SliceDim(sorted, dim, size - 1, 1));
    return c.b.Where(last, c.b.Size(size - 1), middle);
  });
}

// The lower median of what is no NaN.
void NanMedian(OpContext& c) {
  OrderStatistic(c, [&](Value sorted, int64_t dim) -> Value {
    if (!sorted) return {};
    if (!ir::IsFloat(sorted.dtype())) return c.b.Size(Expr::FloorDiv(sorted.shape()[dim] - 1, 2));
    Value number = c.b.Cast(c.b.Unary(Op::kNot, c.b.Unary(Op::kIsNan, sorted)), DType::kI64);
    Value count = c.b.Reduce(Op::kReduceSum, number, {dim}, true);
    Value middle = c.b.Binary(Op::kFloorDiv, c.b.Binary(Op::kAdd, count, Scalar(int64_t{-1})), Scalar(int64_t{2}));
    return c.b.Binary(Op::kMax, middle, Scalar(int64_t{0}));
  });
}

// log of the running sum of exp: each position takes those up to it, against their own largest. As many terms as there
// are pairs, so only of short rows.
void LogCumSumExp(OpContext& c) {
  Builder& b = c.b;
  Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
  if (RankOf(x) == 0) return c.Set(x);
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  int64_t n = x.shape()[dim].constant().value_or(0);
  if (n < 1 || n > 1024) return c.Refuse("a long, empty or symbolic dimension");
  Value largest = b.Emit(Op::kScanMax, {x}, {{"dim", dim}});
  Value infinite = b.Binary(Op::kEq, b.Unary(Op::kAbs, largest), Scalar(INFINITY));
  Value base = b.Where(infinite, Like(b, largest, 0), largest);
  Value terms = b.Unary(Op::kExp, b.Sub(b.Unsqueeze(x, dim), b.Unsqueeze(base, dim + 1)));  // [..., i, j, ...]
  Value up_to = b.Binary(Op::kLe, b.Iota(DType::kI64, terms.shape(), static_cast<int>(dim) + 1),
                         b.Iota(DType::kI64, terms.shape(), static_cast<int>(dim)));
  Value sum = b.Reduce(Op::kReduceSum, b.Where(up_to, terms, Like(b, terms, 0)), {dim + 1}, false);
  c.Set(b.Add(b.Unary(Op::kLog, sum), base));
}

// The most frequent element, the smallest of those, and the last position at which it stands. Each element is compared
// with each; beyond a few eager's sort, which is not stable then, decides about the position.
void Mode(OpContext& c) {
  Builder& b = c.b;
  Value x = c.Tensor("self");
  if (!x) return;
  Value row = RankOf(x) == 0 ? b.Reshape(x, {Expr(1)}) : x;
  int64_t dim = RankOf(x) == 0 ? 0 : c.Wrap(c.Int("dim", -1), RankOf(x));
  int64_t n = row ? row.shape()[dim].constant().value_or(0) : 0;
  if (n < 1 || n > (c.Wanted(1) ? 16 : 512)) return c.Refuse("a long, empty or symbolic dimension");
  std::vector<Value> sorted = SortBy(c, row, dim, /*descending=*/false);
  if (!sorted[0]) return;
  Value equal = b.Binary(Op::kEq, b.Unsqueeze(sorted[0], dim + 1), b.Unsqueeze(sorted[0], dim));
  Value count = b.Reduce(Op::kReduceSum, b.Cast(equal, DType::kI64), {dim + 1}, false);
  count = b.Binary(Op::kMax, count, Scalar(int64_t{1}));  // NaN equals nothing
  Value first = b.Unsqueeze(b.Emit(Op::kArgMax, {count}, {{"dim", dim}}), dim);
  Value times = b.Emit(Op::kGather, {count, first}, {{"dim", dim}});
  Value last = b.Binary(Op::kAdd, b.Binary(Op::kAdd, first, times), Scalar(int64_t{-1}));
  for (int i = 0; i < 2; ++i) {
    if (c.Wanted(i)) c.Set(i, b.Reshape(ElementAt(c, sorted[i], i == 0 ? first : last, dim), c.ResultShape(i)));
  }
}

void Diff(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) == 0) return c.Refuse("a 0-d tensor");
  int64_t dim = c.Wrap(c.Int("dim", -1), RankOf(x));
  std::vector<Value> parts;
  if (Value first = c.OptionalTensor("prepend")) parts.push_back(c.b.Cast(first, x.dtype()));
  parts.push_back(x);
  if (Value last = c.OptionalTensor("append")) parts.push_back(c.b.Cast(last, x.dtype()));
  x = c.b.Concat(parts, dim);
  for (int64_t i = c.Int("n", 1); i > 0 && x; --i) {
    Expr size = x.shape()[dim] - 1;
    Value next = c.b.SliceDim(x, dim, 1, size), here = c.b.SliceDim(x, dim, 0, size);
    x = x.dtype() == DType::kBool ? c.b.Emit(Op::kXor, {next, here}) : c.b.Sub(next, here);
  }
  c.Set(x);
}

}  // namespace

OpTable ScanOps() {
  return {
      {"aten.cumsum.default", Scan(Op::kScanSum)},
      {"aten.cumprod.default", Scan(Op::kScanProd)},
      {"aten.logcumsumexp.default", LogCumSumExp},
      {"aten.cummax.default", Running(Op::kScanMax)},
      {"aten.cummin.default", Running(Op::kScanMin)},
      {"aten.sort.default", Sort},
      {"aten.sort.stable", Sort},
      {"aten.argsort.default", ArgSort},
      {"aten.argsort.stable", ArgSort},
      {"aten.topk.default", TopK},
      {"aten.kthvalue.default", KthValue},
      {"aten.median.default", Median},
      {"aten.median.dim", Median},
      {"aten.nanmedian.default", NanMedian},
      {"aten.nanmedian.dim", NanMedian},
      {"aten.mode.default", Mode},
      {"aten.diff.default", Diff},
  };
}

}  // namespace preheat::decompose
