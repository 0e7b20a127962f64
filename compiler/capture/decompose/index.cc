// Elements picked and put by index. Native kernels check bounds and report; negative indices count from the end where
// eager's operator takes them.

#include <optional>
#include <string>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/indexing.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// 0-d tensors have one row, as in torch.
Value AtLeast1d(OpContext& c, Value x) { return x && RankOf(x) == 0 ? c.b.Reshape(x, {Expr(1)}) : x; }

Value Index64(OpContext& c, Value index) {
  if (!index || index.dtype() == DType::kI64 || index.dtype() == DType::kI32) return index;
  if (index.dtype() == DType::kBool || index.dtype() == DType::kU8) c.Refuse("a mask as index: the size depends on it");
  return c.b.Cast(index, DType::kI64);
}

void Embedding(OpContext& c) {
  c.Set(c.b.Emit(Op::kTake, {c.Tensor("weight"), Index64(c, c.Tensor("indices"))}, FromStart(0)));
}

void IndexSelect(OpContext& c) {
  Value x = AtLeast1d(c, c.Tensor("self")), index = AtLeast1d(c, Index64(c, c.Tensor("index")));
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  Value rows = c.b.Emit(Op::kTake, {x, index}, FromStart(dim));
  c.Set(c.b.Reshape(rows, c.ResultShape()));
}

void Gather(OpContext& c) {
  Value x = AtLeast1d(c, c.Tensor("self")), index = c.Tensor("index");
  if (index && index.type().NumElements() == Expr(0)) return c.Set(c.Fill(0, c.ResultType().dtype));
  index = AtLeast1d(c, Index64(c, index));
  if (RankOf(index) != RankOf(x)) return c.Refuse("an index of another rank");
  Value picked = c.b.Emit(Op::kGather, {x, index}, FromStart(c.Wrap(c.Int("dim"), RankOf(x))));
  c.Set(c.b.Reshape(picked, c.ResultShape()));
}

// Like gather, but the other dimensions broadcast.
void TakeAlongDim(OpContext& c) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("indices"));
  if (!x || !index || !c.Has("dim") || RankOf(x) != RankOf(index) || RankOf(x) == 0) return c.Refuse("no dimension");
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  std::vector<Expr> sx = x.shape(), si = c.ResultShape();
  for (int i = 0; i < RankOf(x); ++i) {
    if (i != dim) sx[i] = si[i];
  }
  c.Set(c.b.Emit(Op::kGather, {c.b.BroadcastTo(x, sx), c.b.BroadcastTo(index, si)}, {{"dim", dim}}));
}

// --- Scatter ---

// Rows or elements of 16-bit floats that are added up are added in f32.
Value ScatterInto(OpContext& c, Op op, Value x, Value index, Value src, ir::Attrs attrs, const std::string& reduce) {
  if (!x) return x;
  attrs["reduce"] = reduce;
  DType dtype = x.dtype(), compute = reduce == "set" ? dtype : ComputeType(dtype);
  if (dtype == DType::kBool && reduce != "set") compute = DType::kU8;
  return c.b.Cast(c.b.Emit(op, {c.b.Cast(x, compute), index, c.b.Cast(src, compute)}, std::move(attrs)), dtype);
}

std::optional<std::string> ReduceName(const std::string& name) {
  if (name == "add" || name == "sum") return "add";
  if (name == "multiply" || name == "prod") return "mul";
  if (name == "amax") return "max";
  if (name == "amin") return "min";
  return std::nullopt;
}

// Puts rows (kPutRows) or elements (kScatter) of src, by one of torch's reductions.
struct Putting {
  Op op;
  Value x, index, src;
  int64_t dim;
  bool from_end = false;  // takes negative indices

  Value Into(OpContext& c, Value target, Value values, const std::string& reduce) const {
    return ScatterInto(c, op, target, index, values, from_end ? ir::Attrs{{"dim", dim}} : FromStart(dim), reduce);
  }
};

// What leaves the other operand of a reduction as it is.
Value Identity(OpContext& c, Value like, const std::string& reduce) {
  if (!like) return like;
  if (reduce == "max") return c.b.Fill(LowestScalar(like.dtype()), like.dtype(), like.shape());
  if (reduce == "min") return c.b.Fill(HighestScalar(like.dtype()), like.dtype(), like.shape());
  return Like(c.b, like, reduce == "mul" ? 1 : 0);
}

// The mean of what meets at an element: sums divided by counts. Integers: rounded down, as eager's.
Value PutMean(OpContext& c, const Putting& p, bool include_self) {
  if (!p.x || !p.src) return {};
  DType dtype = ComputeType(p.x.dtype());
  Putting wide = p;
  wide.x = c.b.Cast(p.x, dtype);
  wide.src = c.b.Cast(p.src, dtype);
  Value start = include_self ? wide.x : wide.Into(c, wide.x, Like(c.b, wide.src, 0), "set");
  Value ones = Like(c.b, wide.x, 1), counts = include_self ? ones : Like(c.b, wide.x, 0);
  counts = wide.Into(c, counts, Like(c.b, wide.src, 1), "add");
  counts = c.b.Binary(Op::kMax, counts, ones);
  Value sum = wide.Into(c, start, wide.src, "add");
  return c.b.Binary(ir::IsFloat(dtype) ? Op::kDiv : Op::kFloorDiv, sum, counts);
}

// Without self, elements that src reaches start from the reduction's identity.
void PutReduced(OpContext& c, Putting p, const std::string& torch_name) {
  bool include_self = c.Bool("include_self", true);
  if (torch_name == "mean") return c.Set(c.b.Reshape(PutMean(c, p, include_self), c.ResultShape()));
  std::optional<std::string> reduce = ReduceName(torch_name);
  if (!reduce) return c.Refuse("this reduction");
  if (!include_self) p.x = p.Into(c, p.x, Identity(c, p.src, *reduce), "set");
  c.Set(c.b.Reshape(p.Into(c, p.x, p.src, *reduce), c.ResultShape()));
}

void ScatterWith(OpContext& c, const std::string& torch_name) {
  Value x = AtLeast1d(c, c.Tensor("self")), index = AtLeast1d(c, Index64(c, c.Tensor("index")));
  if (!x || !index || RankOf(index) != RankOf(x)) return c.Refuse("an index of another rank");
  Value src;
  if (c.Arg("value") != nullptr) {
    src = c.b.BroadcastTo(c.Operand("value", x.dtype()), index.shape());
  } else {
    src = AtLeast1d(c, c.Tensor("src"));
    if (RankOf(src) != RankOf(index)) return c.Refuse("a source of another rank");
    for (int i = 0; i < RankOf(index); ++i)
      src = c.b.SliceDim(src, i, 0, index.shape()[i]);  // only as much as the index has
  }
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  Putting p{.op = Op::kScatter, .x = x, .index = index, .src = src, .dim = dim};
  if (torch_name == "set") return c.Set(c.b.Reshape(p.Into(c, x, src, "set"), c.ResultShape()));
  PutReduced(c, p, torch_name);
}
void Scatter(OpContext& c) { ScatterWith(c, "set"); }
void ScatterAdd(OpContext& c) { ScatterWith(c, "add"); }
void ScatterReduce(OpContext& c) { ScatterWith(c, c.Text("reduce", "")); }

// --- Whole rows ---

// Self with its rows along dim, the index and a source of as many rows.
Putting ReadRows(OpContext& c, const char* source) {
  Value x = AtLeast1d(c, c.Tensor("self")), index = AtLeast1d(c, Index64(c, c.Tensor("index")));
  Putting p{.op = Op::kPutRows, .x = x, .index = index, .src = {}, .dim = c.Wrap(c.Int("dim"), RankOf(x))};
  if (!x || !index) return p;
  std::vector<Expr> shape = x.shape();
  shape[p.dim] = index.shape()[0];
  Value src = c.Operand(source, x.dtype());
  if (src && src.type().NumElements() == ir::NumElements(shape)) src = c.b.Reshape(src, shape);
  p.src = c.b.BroadcastTo(src, shape);
  return p;
}

LowerFn PutRows(const char* source, const char* reduce, bool from_end = false) {
  return [source, reduce, from_end](OpContext& c) {
    Putting p = ReadRows(c, source);
    p.from_end = from_end;
    if (!p.x || !p.src) return;
    if (c.Arg("alpha") != nullptr) {
      DType compute = ComputeType(p.x.dtype());
      p.src = c.b.Binary(Op::kMul, c.b.Cast(p.src, compute), c.Operand("alpha", compute));
    }
    c.Set(c.b.Reshape(p.Into(c, p.x, p.src, reduce), c.ResultShape()));
  };
}
void IndexReduce(OpContext& c) { PutReduced(c, ReadRows(c, "source"), c.Text("reduce", "")); }

// Elements by their number in the flattened operand.
void TakeFlat(OpContext& c) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("index"));
  if (!x) return;
  c.Set(c.b.Emit(Op::kTake, {c.b.Reshape(x, {x.type().NumElements()}), index}, {{"dim", int64_t{0}}}));
}
void PutFlat(OpContext& c) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("index"));
  if (!x || !index) return;
  auto flat = [&](Value v) { return c.b.Reshape(v, {v ? v.type().NumElements() : Expr(0)}); };
  Value src = flat(c.Operand("source", x.dtype()));
  const char* reduce = c.Bool("accumulate", false) ? "add" : "set";
  c.Set(c.b.Reshape(ScatterInto(c, Op::kPutRows, flat(x), flat(index), src, {{"dim", int64_t{0}}}, reduce), x.shape()));
}

// --- Lists of indices ---

// One dimension's contribution: wrapped, and whether it is in range.
struct Part {
  Value at, good;
};
Part WrapIndex(OpContext& c, Value index, const Expr& size) {
  Builder& b = c.b;
  Value n = b.Size(size), zero = Like(b, index, 0);
  Value at = b.Where(b.Binary(Op::kLt, index, zero), b.Add(index, n), index);
  Value good = b.Binary(Op::kAnd, b.Binary(Op::kGe, at, zero), b.Binary(Op::kLt, at, n));
  return {at, good};
}

void IndexOp(OpContext& c) {
  Value x = c.Tensor("self");
  FoldedIndex f = FoldIndices(c, x, c.Tensors("indices"));
  if (!f.index) return;
  Value folded = c.b.Reshape(c.b.Permute(x, f.order), f.folded);
  c.Set(c.b.Emit(Op::kTake, {folded, f.index}, {{"dim", f.dim}}));
}

// How many elements of the flattened mask are set before each.
Value Rank(OpContext& c, Value mask) {
  Value number = c.b.Cast(mask, DType::kI64);
  return c.b.Sub(c.b.Emit(Op::kScanSum, {number}, {{"dim", int64_t{0}}}), number);
}

// The row of `values` for each element of the mask: the first for the first that is set, and so on. Where their numbers
// differ eager complains: then the index is out of range.
Value RowsByMask(OpContext& c, Value mask, Value values) {
  Builder& b = c.b;
  Expr n = mask.type().NumElements(), rows = values.shape()[0];
  Value flat = b.Reshape(mask, {n});
  Value total = b.Reduce(Op::kReduceSum, b.Cast(flat, DType::kI64), {0}, false);
  Value at = b.Where(flat, Rank(c, flat), c.Fill(0, DType::kI64, {n}));
  at = b.Where(b.Binary(Op::kEq, total, b.Size(rows)), at, b.Size(rows));
  return b.Emit(Op::kTake, {values, b.Reshape(at, mask.shape())}, {{"dim", int64_t{0}}});
}

// x[mask] = values: no positions are needed. False when the call is of another form.
bool PutByMask(OpContext& c, Value x) {
  std::vector<Value> indices = c.Tensors("indices");
  if (!x || indices.size() != 1 || !indices[0] || indices[0].dtype() != DType::kBool) return false;
  Value mask = indices[0], values = c.Operand("values", x.dtype());
  int rest = RankOf(x) - RankOf(mask);
  if (!values || rest < 0 || RankOf(values) > rest + 1) return false;
  if (RankOf(values) == rest + 1) {
    bool same = values.shape()[0] == Expr(1);
    std::vector<Expr> row(values.shape().begin() + 1, values.shape().end());
    values = same ? c.b.Reshape(values, row) : RowsByMask(c, mask, values);
  }
  std::vector<Expr> shape = mask.shape();
  shape.resize(x.shape().size(), Expr(1));
  Value where = c.b.BroadcastTo(c.b.Reshape(mask, shape), x.shape());
  values = c.b.BroadcastTo(values, x.shape());
  if (c.Bool("accumulate", false)) values = c.b.Add(x, values);
  c.Set(c.b.Where(where, values, x));
  return true;
}

// x with what index addresses set, or added to; back in x's own order.
Value PutAt(OpContext& c, Value x, const std::vector<Value>& indices, Value values, const char* reduce) {
  FoldedIndex f = FoldIndices(c, x, indices);
  if (!f.index) return {};
  std::vector<Expr> shape(f.folded.begin(), f.folded.begin() + f.dim);
  shape.insert(shape.end(), f.index.shape().begin(), f.index.shape().end());
  shape.insert(shape.end(), f.folded.begin() + f.dim + 1, f.folded.end());
  Value src = c.b.BroadcastTo(values, shape);
  Value folded = c.b.Reshape(c.b.Permute(x, f.order), f.folded);
  Value put = ScatterInto(c, Op::kPutRows, folded, f.index, src, {{"dim", f.dim}}, reduce);
  std::vector<int64_t> back(f.order.size());
  for (size_t i = 0; i < f.order.size(); ++i) back[f.order[i]] = static_cast<int64_t>(i);
  return c.b.Permute(c.b.Reshape(put, f.permuted), back);
}

void IndexPut(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || PutByMask(c, x)) return;
  Value values = c.Operand("values", x.dtype());
  c.Set(PutAt(c, x, c.Tensors("indices"), values, c.Bool("accumulate", false) ? "add" : "set"));
}

// --- Lists of indices that count only where a mask says so ---

// Indices where the mask holds, clamped into range as eager clamps them.
std::vector<Value> ClampedIndices(OpContext& c, Value x) {
  std::vector<Value> indices = c.Tensors("indices");
  if (static_cast<int>(indices.size()) > RankOf(x)) c.Refuse("more indices than dimensions");
  for (size_t i = 0; i < indices.size() && c.b.status().ok(); ++i) {
    if (!indices[i]) continue;
    Value index = c.b.Cast(Index64(c, indices[i]), DType::kI64);
    index = c.b.Binary(Op::kMax, index, c.b.Size(Expr(0) - x.shape()[i]));
    indices[i] = c.b.Binary(Op::kMin, index, c.b.Size(x.shape()[i] - 1));
  }
  return indices;
}

void MaskedIndex(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || x.type().NumElements() == Expr(0)) return c.Refuse("an empty tensor");
  FoldedIndex f = FoldIndices(c, x, ClampedIndices(c, x));
  if (!f.index) return;
  Value picked = c.b.Emit(Op::kTake, {c.b.Reshape(c.b.Permute(x, f.order), f.folded), f.index}, {{"dim", f.dim}});
  Value mask = c.Operand("mask", DType::kBool), fill = c.Operand("fill", x.dtype());
  c.Set(c.b.Where(mask, picked, fill));
}

void MaskedIndexPut(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || x.type().NumElements() == Expr(0)) return c.Refuse("an empty tensor");
  Value mask = c.Operand("mask", DType::kBool), values = c.Operand("values", x.dtype());
  Value masked = c.b.Where(mask, values, Like(c.b, values, 0));
  c.Set(PutAt(c, x, ClampedIndices(c, x), masked, "add"));
}

// --- Masks: elements of the source in the order in which the mask is set ---

void MaskedScatter(OpContext& c) {
  Value x = c.Tensor("self"), source = c.Operand("source", c.ResultType().dtype);
  if (!x || !source || source.type().NumElements() == Expr(0)) return c.Refuse("an empty source");
  Expr n = ir::NumElements(c.ResultShape());
  Value mask = c.b.Reshape(c.b.BroadcastTo(c.Operand("mask", DType::kBool), c.ResultShape()), {n});
  Value at = c.b.Where(mask, Rank(c, mask), c.Fill(0, DType::kI64, {n}));
  Value flat = c.b.Reshape(source, {source.type().NumElements()});
  Value taken = c.b.Reshape(c.b.Emit(Op::kTake, {flat, at}, {{"dim", int64_t{0}}}), c.ResultShape());
  c.Set(c.b.Where(c.b.Reshape(mask, c.ResultShape()), taken, c.b.BroadcastTo(x, c.ResultShape())));
}

// The gradient of the source: zeros, and what the mask takes, in order. Others go to an element that is cut off.
void MaskedScatterGrad(OpContext& c) {
  Value mask = c.Operand("mask", DType::kBool), g = c.Tensor("grad_output");
  if (!mask || !g) return;
  g = c.b.BroadcastTo(g, c.b.BroadcastShape(g.shape(), mask.shape()));
  if (!g) return;
  Expr n = g.type().NumElements(), size = ir::NumElements(c.ResultShape());
  mask = c.b.Reshape(c.b.BroadcastTo(mask, g.shape()), {n});
  Value at = c.b.Where(mask, Rank(c, mask), c.b.Size(size));
  Value zeros = c.Fill(0, g.dtype(), {size + 1});
  Value put =
      c.b.Emit(Op::kPutRows, {zeros, at, c.b.Reshape(g, {n})}, {{"dim", int64_t{0}}, {"reduce", std::string("set")}});
  c.Set(c.b.Reshape(c.b.SliceDim(put, 0, 0, size), c.ResultShape()));
}

}  // namespace

FoldedIndex FoldIndices(OpContext& c, Value x, std::vector<Value> indices) {
  Builder& b = c.b;
  FoldedIndex f;
  std::vector<int64_t> indexed, whole;
  indices.resize(std::max<size_t>(indices.size(), RankOf(x)));
  if (static_cast<int>(indices.size()) > RankOf(x)) c.Refuse("more indices than dimensions");
  for (int64_t i = 0; i < RankOf(x); ++i) (indices[i] ? indexed : whole).push_back(i);
  if (indexed.empty() || !b.status().ok()) {
    c.Refuse("no index");
    return f;
  }
  // Neighbours stay in place; indices apart from each other come first, as numpy has it.
  bool together = indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  f.dim = together ? indexed.front() : 0;
  f.order.assign(whole.begin(), whole.begin() + f.dim);
  f.order.insert(f.order.end(), indexed.begin(), indexed.end());
  f.order.insert(f.order.end(), whole.begin() + f.dim, whole.end());
  for (int64_t i : f.order) f.permuted.push_back(x.shape()[i]);
  Expr total = 1;
  std::vector<Expr> common;
  for (int64_t i : indexed) {
    total = total * x.shape()[i];
    indices[i] = b.Cast(Index64(c, indices[i]), DType::kI64);
    if (indices[i]) common = b.BroadcastShape(common, indices[i].shape());
  }
  f.folded.assign(f.permuted.begin(), f.permuted.begin() + f.dim);
  f.folded.push_back(total);
  f.folded.insert(f.folded.end(), f.permuted.begin() + f.dim + static_cast<int64_t>(indexed.size()), f.permuted.end());
  if (indexed.size() == 1) {
    f.index = indices[indexed[0]];
    return f;
  }
  Value position, good;
  for (int64_t i : indexed) {
    Part part = WrapIndex(c, indices[i], x.shape()[i]);
    position = position ? b.Add(b.Mul(position, b.Size(x.shape()[i])), part.at) : part.at;
    good = good ? b.Binary(Op::kAnd, good, part.good) : part.good;
  }
  f.index = b.Where(good, position, b.Size(total));
  return f;
}

OpTable IndexOps() {
  return {
      {"aten.embedding.default", Embedding},
      {"aten.index_select.default", IndexSelect},
      {"aten.gather.default", Gather},
      {"aten.take_along_dim.default", TakeAlongDim},
      {"aten.index.Tensor", IndexOp},
      {"aten._unsafe_index.Tensor", IndexOp},
      {"aten.index_put.default", IndexPut},
      {"aten._unsafe_index_put.default", IndexPut},
      {"aten._unsafe_masked_index.default", MaskedIndex},
      {"aten._unsafe_masked_index_put_accumulate.default", MaskedIndexPut},
      {"aten.masked_scatter.default", MaskedScatter},
      {"aten.masked_scatter_backward.default", MaskedScatterGrad},
      {"aten.scatter.src", Scatter},
      {"aten.scatter.value", Scatter},
      {"aten.scatter.reduce", ScatterReduce},
      {"aten.scatter.value_reduce", ScatterReduce},
      {"aten.scatter_add.default", ScatterAdd},
      {"aten.scatter_reduce.two", ScatterReduce},
      {"aten.index_add.default", PutRows("source", "add")},
      {"aten.index_copy.default", PutRows("source", "set")},
      {"aten.index_fill.int_Scalar", PutRows("value", "set", /*from_end=*/true)},
      {"aten.index_fill.int_Tensor", PutRows("value", "set", /*from_end=*/true)},
      {"aten.index_reduce.default", IndexReduce},
      {"aten.take.default", TakeFlat},
      {"aten.put.default", PutFlat},
  };
}

}  // namespace preheat::decompose
