// Elements picked and put by index. Native kernels wrap negative indices, check bounds and report.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/indexing.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

Value Index64(OpContext& c, Value index) {
  if (!index || index.dtype() == DType::kI64 || index.dtype() == DType::kI32) return index;
  if (index.dtype() == DType::kBool || index.dtype() == DType::kU8) c.Refuse("a mask as index: the size depends on it");
  return c.b.Cast(index, DType::kI64);
}

void Embedding(OpContext& c) {
  c.Set(c.b.Emit(Op::kTake, {c.Tensor("weight"), Index64(c, c.Tensor("indices"))}, {{"dim", int64_t{0}}}));
}

void IndexSelect(OpContext& c) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("index"));
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  if (RankOf(index) == 0) index = c.b.Reshape(index, {Expr(1)});
  if (RankOf(x) == 0) return c.Refuse("a row of a 0-d tensor");
  c.Set(c.b.Emit(Op::kTake, {x, index}, {{"dim", dim}}));
}

void Gather(OpContext& c) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("index"));
  if (RankOf(x) == 0 || RankOf(index) != RankOf(x)) return c.Refuse("0-d operands");
  c.Set(c.b.Emit(Op::kGather, {x, index}, {{"dim", c.Wrap(c.Int("dim"), RankOf(x))}}));
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
Value ScatterInto(OpContext& c, Op op, Value x, Value index, Value src, int64_t dim, const std::string& reduce) {
  if (!x) return x;
  DType dtype = x.dtype(), compute = reduce == "set" ? dtype : ComputeType(dtype);
  if (dtype == DType::kBool && reduce != "set") compute = DType::kU8;
  return c.b.Cast(
      c.b.Emit(op, {c.b.Cast(x, compute), index, c.b.Cast(src, compute)}, {{"dim", dim}, {"reduce", reduce}}), dtype);
}

std::optional<std::string> ReduceName(const std::string& name) {
  if (name == "add" || name == "sum") return "add";
  if (name == "multiply" || name == "prod") return "mul";
  if (name == "amax") return "max";
  if (name == "amin") return "min";
  return std::nullopt;
}

void ScatterWith(OpContext& c, const std::string& reduce) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("index"));
  if (RankOf(x) == 0 || RankOf(index) != RankOf(x)) return c.Refuse("0-d operands");
  Value src;
  if (c.Arg("value") != nullptr) {
    src = c.b.BroadcastTo(c.Operand("value", x.dtype()), index.shape());
  } else {
    src = c.Tensor("src");
    if (RankOf(src) != RankOf(index)) return c.Refuse("a source of another rank");
    for (int i = 0; i < RankOf(index); ++i)
      src = c.b.SliceDim(src, i, 0, index.shape()[i]);  // only as much as the index has
  }
  c.Set(ScatterInto(c, Op::kScatter, x, index, src, c.Wrap(c.Int("dim"), RankOf(x)), reduce));
}
void Scatter(OpContext& c) { ScatterWith(c, "set"); }
void ScatterAdd(OpContext& c) { ScatterWith(c, "add"); }
void ScatterReduce(OpContext& c) {
  std::optional<std::string> reduce = ReduceName(c.Text("reduce", ""));
  if (!reduce || !c.Bool("include_self", true)) return c.Refuse("this reduction");
  ScatterWith(c, *reduce);
}

// --- Whole rows ---

void PutRows(OpContext& c, const char* source, const std::string& reduce) {
  Value x = c.Tensor("self"), index = Index64(c, c.Tensor("index"));
  if (RankOf(x) == 0) return c.Refuse("a 0-d tensor");
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  if (RankOf(index) == 0) index = c.b.Reshape(index, {Expr(1)});
  if (!x || !index) return;
  std::vector<Expr> shape = x.shape();
  shape[dim] = index.shape()[0];
  Value src = c.b.BroadcastTo(c.Operand(source, x.dtype()), shape);
  if (c.Arg("alpha") != nullptr) {
    DType compute = ComputeType(x.dtype());
    src = c.b.Binary(Op::kMul, c.b.Cast(src, compute), c.Operand("alpha", compute));
  }
  c.Set(ScatterInto(c, Op::kPutRows, x, index, src, dim, reduce));
}
void IndexAdd(OpContext& c) { PutRows(c, "source", "add"); }
void IndexCopy(OpContext& c) { PutRows(c, "source", "set"); }
void IndexFill(OpContext& c) { PutRows(c, "value", "set"); }

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

// x[mask] = number: no positions are needed. False when the call is of another form.
bool PutByMask(OpContext& c, Value x) {
  std::vector<Value> indices = c.Tensors("indices");
  Value values = c.Tensor("values");
  bool masked = indices.size() == 1 && indices[0] && indices[0].dtype() == DType::kBool && !c.Bool("accumulate", false);
  if (!masked || !x || !values || values.type().NumElements() != Expr(1)) return false;
  std::vector<Expr> shape = indices[0].shape();
  shape.resize(x.shape().size(), Expr(1));
  Value mask = c.b.BroadcastTo(c.b.Reshape(indices[0], shape), x.shape());
  Value number = c.b.Cast(c.b.Reshape(values, {}), x.dtype());
  c.Set(c.b.Where(mask, number, x));
  return true;
}

// x with what index addresses set, or added to; back in x's own order.
void IndexPut(OpContext& c) {
  Value x = c.Tensor("self");
  if (PutByMask(c, x)) return;
  FoldedIndex f = FoldIndices(c, x, c.Tensors("indices"));
  if (!f.index) return;
  std::vector<Expr> shape(f.folded.begin(), f.folded.begin() + f.dim);
  shape.insert(shape.end(), f.index.shape().begin(), f.index.shape().end());
  shape.insert(shape.end(), f.folded.begin() + f.dim + 1, f.folded.end());
  Value src = c.b.BroadcastTo(c.Operand("values", x.dtype()), shape);
  Value folded = c.b.Reshape(c.b.Permute(x, f.order), f.folded);
  Value put = ScatterInto(c, Op::kPutRows, folded, f.index, src, f.dim, c.Bool("accumulate", false) ? "add" : "set");
  std::vector<int64_t> back(f.order.size());
  for (size_t i = 0; i < f.order.size(); ++i) back[f.order[i]] = static_cast<int64_t>(i);
  c.Set(c.b.Permute(c.b.Reshape(put, f.permuted), back));
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
      {"aten.scatter.src", Scatter},
      {"aten.scatter.value", Scatter},
      {"aten.scatter.reduce", ScatterReduce},
      {"aten.scatter.value_reduce", ScatterReduce},
      {"aten.scatter_add.default", ScatterAdd},
      {"aten.scatter_reduce.two", ScatterReduce},
      {"aten.index_add.default", IndexAdd},
      {"aten.index_copy.default", IndexCopy},
      {"aten.index_fill.int_Scalar", IndexFill},
      {"aten.index_fill.int_Tensor", IndexFill},
  };
}

}  // namespace preheat::decompose
