// Running sums, sorting, differences between neighbours.

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

// Among equals eager's order is its own unless a stable sort is asked for. Integers and bools have many equals: where
// their positions are used, only eager can give the ones it would give.
void RefuseTies(OpContext& c, Value x, int positions) {
  if (x && !ir::IsFloat(x.dtype()) && c.Wanted(positions) && !c.Bool("stable", false)) c.Refuse("the order of equals");
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
      {"aten.sort.default", Sort},
      {"aten.sort.stable", Sort},
      {"aten.argsort.default", ArgSort},
      {"aten.argsort.stable", ArgSort},
      {"aten.topk.default", TopK},
      {"aten.diff.default", Diff},
  };
}

}  // namespace preheat::decompose
