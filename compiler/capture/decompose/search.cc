// Searching: the place of numbers among sorted ones, membership, histograms.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/promote.h"

namespace preheat::decompose {
namespace {

constexpr int64_t kMaxTested = 1024;  // isin compares with each: beyond this eager, which sorts, is better

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// How many elements of `sorted` (its last dimension, of constant size n) come before each of `values`, the leading
// dimensions being equal or `sorted` having none. Halved steps: bit by bit, the count grows while the element before
// the next count comes first. Without `right` equal elements do not; NaN comes last, as eager's comparisons have it.
Value CountBefore(OpContext& c, Value sorted, Value values, int64_t n, bool right) {
  Builder& b = c.b;
  if (!sorted || !values) return {};
  const std::vector<Expr>& shape = values.shape();
  Value count = c.Fill(0, DType::kI64, shape);
  int64_t bit = 1;
  while (bit * 2 <= n) bit *= 2;
  for (; bit > 0 && n > 0; bit /= 2) {
    Value next = b.Binary(Op::kAdd, count, Scalar(bit));
    Value at = b.Binary(Op::kMin, b.Binary(Op::kAdd, next, Scalar(int64_t{-1})), Scalar(n - 1));
    Value element = RankOf(sorted) == 1 ? b.Emit(Op::kTake, {sorted, at}, {{"dim", int64_t{0}}})
                                        : b.Emit(Op::kGather, {sorted, at}, {{"dim", int64_t{RankOf(sorted) - 1}}});
    Value before = b.Unary(Op::kNot, b.Binary(right ? Op::kGt : Op::kGe, element, values));
    before = b.Binary(Op::kAnd, before, b.Binary(Op::kLe, next, Scalar(n)));
    count = b.Where(before, next, count);
  }
  return count;
}

void Search(OpContext& c, const char* sequence, const char* numbers) {
  Value sorted = c.Tensor(sequence);
  const Argument* given = c.Arg(numbers);
  if (!sorted || given == nullptr) return;
  Value values = c.Operand(numbers, sorted.dtype());
  if (std::holds_alternative<capture::ValueRef>(*given) && c.Tensor(numbers).dtype() != sorted.dtype())
    return c.Refuse("operands of different dtypes");
  if (std::holds_alternative<double>(*given) && !ir::IsFloat(sorted.dtype()))
    return c.Refuse("a fraction among integers");
  std::optional<int64_t> n = RankOf(sorted) == 0 ? 1 : sorted.shape().back().constant();
  if (!n || sorted.dtype() == DType::kBool) return c.Refuse("a symbolic number of boundaries");
  if (RankOf(sorted) == 0) sorted = c.b.Reshape(sorted, {Expr(1)});
  if (RankOf(sorted) > 1 && RankOf(values) != RankOf(sorted)) return c.Refuse("operands of different ranks");
  if (Value order = c.OptionalTensor("sorter")) {  // of the shape of the sequence
    int64_t last = RankOf(sorted) - 1;
    sorted = c.b.Emit(last == 0 ? Op::kTake : Op::kGather, {sorted, order}, {{"dim", last}});
  }
  bool right = c.Bool("right", false) || c.Text("side", "left") == "right";
  DType wide = ComputeType(sorted.dtype());
  c.Set(CountBefore(c, c.b.Cast(sorted, wide), c.b.Cast(values, wide), *n, right));
}
void SearchSorted(OpContext& c) { Search(c, "sorted_sequence", "self"); }
void Bucketize(OpContext& c) { Search(c, "boundaries", "self"); }

// Whether an element is among the tested ones.
LowerFn IsIn(const char* elements, const char* tested) {
  return [elements, tested](OpContext& c) {
    capture::Promotion promotion;
    for (const char* name : {elements, tested}) {
      const Argument* arg = c.Arg(name);
      if (arg == nullptr) return c.Refuse("an operand is missing");
      if (!std::holds_alternative<capture::ValueRef>(*arg)) {
        promotion.AddNumber(*arg);
      } else if (Value x = c.Tensor(name)) {
        promotion.AddTensor(x.type());
      }
    }
    DType dtype = promotion.Result();
    Value x = c.Operand(elements, dtype), y = c.Operand(tested, dtype);
    if (!x || !y) return;
    std::optional<int64_t> n = y.type().NumElements().constant();
    if (!n || *n > kMaxTested) return c.Refuse("many tested elements");
    Value row = c.b.Reshape(y, {Expr(*n)});
    Value equal = c.b.Binary(Op::kEq, c.b.Unsqueeze(x, RankOf(x)), row);
    Value found = c.b.Reduce(Op::kReduceAny, equal, {RankOf(x)}, false);
    c.Set(c.Bool("invert", false) ? c.b.Unary(Op::kNot, found) : found);
  };
}

// Positions of the elements that are not 0, so many of them: later ones are cut off, missing ones are a fill value.
void NonzeroStatic(OpContext& c) {
  Builder& b = c.b;
  Value x = c.Operand("self", DType::kBool);
  std::optional<int64_t> size = c.Size("size").constant();
  if (!x || !size) return c.Refuse("a symbolic size");
  if (RankOf(x) == 0) return c.Set(c.Fill(0, DType::kI64, {Expr(*size), Expr(0)}));  // it has no coordinates
  const std::vector<Expr> shape = x.shape();
  Expr n = x.type().NumElements();
  Value mask = b.Reshape(x, {n}), number = b.Cast(mask, DType::kI64);
  Value rank = b.Sub(b.Emit(Op::kScanSum, {number}, {{"dim", int64_t{0}}}), number);
  Value kept = b.Binary(Op::kAnd, mask, b.Binary(Op::kLt, rank, Scalar(*size)));
  Value at = b.Where(kept, rank, b.Fill(Scalar(*size), DType::kI64));  // others go to an element that is cut off
  Value none = b.Fill(Scalar(int64_t{-1}), DType::kI64, {Expr(*size + 1)});
  Value places = b.Emit(Op::kPutRows, {none, at, b.Iota(DType::kI64, {n}, 0)},
                        {{"dim", int64_t{0}}, {"reduce", std::string("set")}});
  Value place = b.SliceDim(places, 0, 0, *size), missing = b.Binary(Op::kLt, place, Scalar(int64_t{0}));
  Value fill = b.Fill(Scalar(c.Int("fill_value", -1)), DType::kI64, {Expr(*size)});
  std::vector<Value> columns(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    Value coordinate = b.Binary(Op::kMod, place, b.Size(Expr::Max(shape[i], 1)));
    place = b.Binary(Op::kFloorDiv, place, b.Size(Expr::Max(shape[i], 1)));
    columns[i] = b.Unsqueeze(b.Where(missing, fill, coordinate), 1);
  }
  c.Set(b.Concat(columns, 1));
}

struct Span {
  Value low, high;  // 0-d
};

// The given one; the data's own where no room is given, and one more to each side where it has none either.
Span SpanOf(OpContext& c, Value flat) {
  Builder& b = c.b;
  double low = c.Double("min", 0), high = c.Double("max", 0);
  if (low < high) return {c.Fill(low, flat.dtype()), c.Fill(high, flat.dtype())};
  std::optional<int64_t> count = flat.type().NumElements().constant();
  if (low != high || !count || *count == 0) c.Refuse("a range without room, or of no data");
  Value least = b.Reduce(Op::kReduceMin, flat, {0}, false), most = b.Reduce(Op::kReduceMax, flat, {0}, false);
  Value flat_span = b.Binary(Op::kEq, least, most);
  return {b.Where(flat_span, b.Add(least, -1.0), least), b.Where(flat_span, b.Add(most, 1.0), most)};
}

// Counts of equal bins between two numbers; what lies outside goes to a bin that is cut off.
void Histogram(OpContext& c) {
  Value x = c.Tensor("self");
  int64_t bins = c.Int("bins", 100);
  if (!x || bins < 1) return c.Refuse("no bins");
  DType dtype = ComputeType(x.dtype());
  if (!ir::IsFloat(dtype)) return c.Refuse("integers");
  Value flat = c.b.Cast(c.b.Reshape(x, {x.type().NumElements()}), dtype);
  auto [low, high] = SpanOf(c, flat);
  Value inside = c.b.Binary(Op::kAnd, c.b.Binary(Op::kGe, flat, low), c.b.Binary(Op::kLe, flat, high));
  Value from_low = c.b.Mul(c.b.Sub(flat, low), static_cast<double>(bins));
  Value place = c.b.Div(from_low, c.b.Sub(high, low));
  place = c.b.Where(inside, place, Like(c.b, flat, static_cast<double>(bins)));
  Value bin = c.b.Binary(Op::kMin, c.b.Cast(place, DType::kI64), Scalar(bins - 1));
  bin = c.b.Where(inside, bin, c.b.Binary(Op::kAdd, Like(c.b, bin, 0), Scalar(bins)));
  Value counts = c.b.Emit(Op::kPutRows, {c.Fill(0, dtype, {Expr(bins + 1)}), bin, Like(c.b, flat, 1)},
                          {{"dim", int64_t{0}}, {"reduce", std::string("add")}});
  c.Set(c.b.SliceDim(counts, 0, 0, bins));
}

}  // namespace

OpTable SearchOps() {
  return {
      {"aten.searchsorted.Tensor", SearchSorted},
      {"aten.searchsorted.Scalar", SearchSorted},
      {"aten.bucketize.Tensor", Bucketize},
      {"aten.bucketize.Scalar", Bucketize},
      {"aten.isin.Tensor_Tensor", IsIn("elements", "test_elements")},
      {"aten.isin.Tensor_Scalar", IsIn("elements", "test_element")},
      {"aten.isin.Scalar_Tensor", IsIn("element", "test_elements")},
      {"aten.nonzero_static.default", NonzeroStatic},
      {"aten.histc.default", Histogram},
  };
}

}  // namespace preheat::decompose
