// Views: other shapes and parts of a tensor. Shapes come from the declared results, which the program's
// source computed: a -1 needs no solving here, and the number of elements is checked by the builder.

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/decompose/slices.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

void Identity(OpContext& c) { c.Set(c.Tensor("self")); }
void Reshape(OpContext& c) { c.Set(c.b.Reshape(c.Tensor("self"), c.ResultShape())); }
void Expand(OpContext& c) { c.Set(c.b.BroadcastTo(c.Tensor("self"), c.ResultShape())); }
void Permute(OpContext& c) { c.Set(c.b.Permute(c.Tensor("self"), c.Ints("dims"))); }

void Transposed(OpContext& c, int64_t a, int64_t b) {
  Value x = c.Tensor("self");
  c.Set(RankOf(x) == 0 ? x : c.b.Transpose(x, a, b));
}
void Transpose(OpContext& c) { Transposed(c, c.Int("dim0"), c.Int("dim1")); }
void SwapAxes(OpContext& c) { Transposed(c, c.Int("axis0"), c.Int("axis1")); }
void T(OpContext& c) {
  Value x = c.Tensor("self");
  c.Set(RankOf(x) == 2 ? c.b.Transpose(x, 0, 1) : x);
}
void MatrixT(OpContext& c) { Transposed(c, -1, -2); }
void NumpyT(OpContext& c) {
  Value x = c.Tensor("self");
  std::vector<int64_t> dims(RankOf(x));
  std::iota(dims.rbegin(), dims.rend(), 0);
  c.Set(c.b.Permute(x, dims));
}

void MoveDim(OpContext& c) {
  Value x = c.Tensor("self");
  int rank = RankOf(x);
  std::vector<int64_t> from = c.Ints("source"), to = c.Ints("destination");
  if (from.size() != to.size() || static_cast<int>(from.size()) > rank)
    return c.Refuse("source and destination differ");
  std::vector<int64_t> dims(rank, -1);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t f = c.Wrap(from[i], rank);
    dims[c.Wrap(to[i], rank)] = f;
    moved[f] = true;
  }
  int next = 0;
  for (int64_t& dim : dims) {
    if (dim >= 0) continue;
    while (next < rank && moved[next]) ++next;
    dim = next++;
  }
  c.Set(c.b.Permute(x, dims));
}

void Slice(OpContext& c) {
  Value x = c.Tensor("self");
  int64_t dim = c.Wrap(c.Int("dim", 0), RankOf(x));
  if (!x || RankOf(x) == 0) return c.Refuse("a slice of a 0-d tensor");
  Expr start = SliceStart(c.Size("start", 0), x.shape()[dim]);
  c.Set(c.b.SliceDim(x, dim, start, c.ResultShape()[dim], c.Int("step", 1)));
}

void Narrow(OpContext& c) {
  Value x = c.Tensor("self");
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  if (!x || RankOf(x) == 0) return c.Refuse("a slice of a 0-d tensor");
  c.Set(c.b.SliceDim(x, dim, SliceStart(c.Size("start"), x.shape()[dim]), c.Size("length")));
}

// Row `index` along a dimension, which is dropped.
Value Select(OpContext& c, Value x, int64_t dim, const Expr& index) {
  if (!x || RankOf(x) == 0) return x;
  Expr at = index.constant().value_or(0) < 0 ? index + x.shape()[dim] : index;
  return c.b.Squeeze(c.b.SliceDim(x, dim, at, 1), dim);
}

void SelectOp(OpContext& c) {
  Value x = c.Tensor("self");
  c.Set(Select(c, x, c.Wrap(c.Int("dim"), RankOf(x)), c.Size("index")));
}

// Consecutive parts; the declared results say how long each is.
void Split(OpContext& c) {
  Value x = c.Tensor("self");
  int64_t dim = c.Wrap(c.Int("dim", 0), RankOf(x));
  if (!x || RankOf(x) == 0) return c.Refuse("a split of a 0-d tensor");
  Expr start = 0;
  for (int i = 0; i < c.num_results(); ++i) {
    if (!c.HasResult(i)) return c.Refuse("a part without a type");
    const Expr& size = c.ResultShape(i)[dim];
    c.Set(i, c.b.SliceDim(x, dim, start, size));
    start = start + size;
  }
}

void Unbind(OpContext& c) {
  Value x = c.Tensor("self");
  int64_t dim = c.Wrap(c.Int("dim", 0), RankOf(x));
  for (int i = 0; i < c.num_results(); ++i) c.Set(i, Select(c, x, dim, i));
}

void Cat(OpContext& c) {
  std::vector<Value> parts;
  for (Value part : c.Tensors("tensors")) {
    bool legacy_empty = part && RankOf(part) == 1 && part.shape()[0] == Expr(0) && c.ResultType().rank() != 1;
    if (!legacy_empty) parts.push_back(c.b.Cast(part, c.ResultType().dtype));
  }
  if (parts.empty()) return c.Refuse("nothing to join");
  c.Set(c.b.Concat(parts, c.Wrap(c.Int("dim", 0), c.ResultType().rank())));
}

void Stack(OpContext& c) {
  int64_t dim = c.Wrap(c.Int("dim", 0), c.ResultType().rank());
  std::vector<Value> parts;
  for (Value part : c.Tensors("tensors")) parts.push_back(c.b.Unsqueeze(c.b.Cast(part, c.ResultType().dtype), dim));
  if (parts.empty()) return c.Refuse("nothing to join");
  c.Set(c.b.Concat(parts, dim));
}

// A tensor repeated along each dimension: an extra dimension grows and is folded in.
void Repeat(OpContext& c) {
  Value x = c.Tensor("self");
  std::vector<Expr> repeats = c.Sizes(c.Arg("repeats") != nullptr ? "repeats" : "dims");
  if (!x) return;
  while (repeats.size() < x.shape().size()) repeats.insert(repeats.begin(), Expr(1));
  std::vector<Expr> split, grown;
  for (size_t i = 0; i < repeats.size(); ++i) {
    size_t leading = repeats.size() - x.shape().size();
    Expr size = i < leading ? Expr(1) : x.shape()[i - leading];
    split.insert(split.end(), {Expr(1), size});
    grown.insert(grown.end(), {repeats[i], size});
  }
  c.Set(c.b.Reshape(c.b.BroadcastTo(c.b.Reshape(x, split), grown), c.ResultShape()));
}

void RepeatInterleave(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x) return;
  Expr times = c.Size("repeats");
  if (!c.Has("dim")) x = c.b.Reshape(x, {x.type().NumElements()});
  int64_t dim = c.Wrap(c.Int("dim", 0), RankOf(x));
  Value wide = c.b.Unsqueeze(x, dim + 1);
  if (!wide) return;
  std::vector<Expr> grown = wide.shape();
  grown[dim + 1] = times;
  c.Set(c.b.Reshape(c.b.BroadcastTo(wide, grown), c.ResultShape()));
}

void Flip(OpContext& c) {
  Value x = c.Tensor("self");
  std::vector<int64_t> dims = c.Ints("dims");
  for (int64_t& dim : dims) dim = c.Wrap(dim, RankOf(x));
  c.Set(dims.empty() || RankOf(x) == 0 ? x : c.b.Emit(Op::kFlip, {x}, {{"dims", dims}}));
}

Value RollDim(OpContext& c, Value x, int64_t dim, const Expr& shift) {
  if (!x) return x;
  const Expr size = x.shape()[dim];
  if (size == Expr(0)) return x;
  Expr first = Expr::Mod(Expr(0) - shift, size);  // the element that comes to the front
  if (first == Expr(0)) return x;
  Value tail = c.b.SliceDim(x, dim, first, size - first), head = c.b.SliceDim(x, dim, 0, first);
  return c.b.Concat({tail, head}, dim);
}

void Roll(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x) return;
  std::vector<Expr> shifts = c.Sizes("shifts");
  std::vector<int64_t> dims = c.Ints("dims");
  if (dims.empty()) {
    if (shifts.size() != 1) return c.Refuse("shifts without dims");
    return c.Set(c.b.Reshape(RollDim(c, c.b.Reshape(x, {x.type().NumElements()}), 0, shifts[0]), c.ResultShape()));
  }
  if (dims.size() != shifts.size()) return c.Refuse("shifts and dims differ");
  for (size_t i = 0; i < dims.size(); ++i) x = RollDim(c, x, c.Wrap(dims[i], RankOf(x)), shifts[i]);
  c.Set(x);
}

// Windows along a dimension; the window is a last dimension, as in torch.
void Unfold(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) == 0 && c.Int("size") != 1) return c.Refuse("an empty window of a 0-d tensor");
  if (RankOf(x) == 0) return c.Set(c.b.Reshape(x, {Expr(1)}));
  int64_t dim = c.Wrap(c.Int("dimension"), RankOf(x));
  c.Set(c.b.Emit(Op::kWindow, {x},
                 {{"dim", dim}, {"size", c.Int("size")}, {"step", c.Int("step")}, {"dilation", int64_t{1}}}));
}

// The diagonal of two dimensions, as a last one: picked along one of them by the index of the other.
void Diagonal(OpContext& c) {
  Value x = c.Tensor("self");
  int rank = RankOf(x);
  if (rank < 2) return c.Refuse("a diagonal of fewer than two dimensions");
  int64_t offset = c.Int("offset", 0), a = c.Wrap(c.Int("dim1", 0), rank), z = c.Wrap(c.Int("dim2", 1), rank);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != a && i != z) order.push_back(i);
  }
  order.insert(order.end(), {a, z});
  Value last = c.b.Permute(x, order);
  const Expr& length = c.ResultShape().back();
  Value rows = c.b.SliceDim(last, -2, offset < 0 ? -offset : 0, length);
  Value columns = c.b.SliceDim(rows, -1, offset > 0 ? offset : 0, length);
  if (!columns) return;
  Value row = c.b.Iota(DType::kI64, {length, length}, 0), column = c.b.Iota(DType::kI64, {length, length}, 1);
  Value keep = c.b.BroadcastTo(c.b.Emit(Op::kEq, {row, column}), columns.shape());
  // One element of each row is kept, so that a sum of the others' zeros is exact.
  Value masked = c.b.Where(keep, columns, Like(c.b, columns, 0));
  if (masked && masked.dtype() == DType::kBool) return c.Set(c.b.Reduce(Op::kReduceAny, masked, {rank - 1}, false));
  c.Set(c.b.Reduce(Op::kReduceSum, masked, {rank - 1}, false));
}

// The sum of a matrix's diagonal; integers are summed as i64.
void Trace(OpContext& c) {
  Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
  if (RankOf(x) != 2) return c.Refuse("no matrix");
  Value row = c.b.Iota(DType::kI64, x.shape(), 0), column = c.b.Iota(DType::kI64, x.shape(), 1);
  c.Set(c.b.Reduce(Op::kReduceSum, c.b.Where(c.b.Emit(Op::kEq, {row, column}), x, Like(c.b, x, 0)), {0, 1}, false));
}

// Channels, dimension 1, in groups: the first of each group come first.
void ChannelShuffle(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) < 3) return c.Refuse("fewer than three dimensions");
  Expr groups = c.Size("groups");
  std::vector<Expr> split = x.shape();
  split[1] = groups;
  split.insert(split.begin() + 2, Expr::FloorDiv(x.shape()[1], groups));
  c.Set(c.b.Reshape(c.b.Transpose(c.b.Reshape(x, split), 1, 2), x.shape()));
}

// Each tensor, padded with zeros, in so many chunks along a dimension; what is left of a chunk is one run. The runs
// are joined.
void ChunkCat(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  int64_t chunks = c.Int("num_chunks");
  std::vector<Value> parts;
  for (Value x : c.Tensors("tensors")) {
    int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
    if (!x || RankOf(x) == 0 || chunks < 1) return c.Refuse("a 0-d tensor");
    std::vector<Expr> low(RankOf(x), Expr(0)), high = low, shape(x.shape().begin(), x.shape().begin() + dim);
    Expr padded = Expr::CeilDiv(x.shape()[dim], chunks) * chunks, rest = Expr::CeilDiv(x.shape()[dim], chunks);
    high[dim] = padded - x.shape()[dim];
    for (int64_t i = dim + 1; i < RankOf(x); ++i) rest = rest * x.shape()[i];
    ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, dtype));
    Value full = c.b.Emit(Op::kPad, {c.b.Cast(x, dtype)}, {{"low", low}, {"high", high}, {"value", zero}});
    shape.insert(shape.end(), {Expr(chunks), rest});
    parts.push_back(c.b.Reshape(full, shape));
  }
  if (parts.empty()) return c.Refuse("nothing to join");
  c.Set(c.b.Concat(parts, c.ResultType().rank() - 1));
}

// Quarter turns from the first of two dimensions to the second.
void Rotate(OpContext& c) {
  Value x = c.Tensor("self");
  std::vector<int64_t> dims = c.Ints("dims");
  if (dims.empty()) dims = {0, 1};
  if (dims.size() != 2) return c.Refuse("dims are not two");
  int64_t from = c.Wrap(dims[0], RankOf(x)), to = c.Wrap(dims[1], RankOf(x)), turns = ((c.Int("k", 1) % 4) + 4) % 4;
  auto flip = [&](Value v, std::vector<int64_t> over) { return c.b.Emit(Op::kFlip, {v}, {{"dims", std::move(over)}}); };
  if (turns == 0) return c.Set(x);
  if (turns == 2) return c.Set(flip(x, {std::min(from, to), std::max(from, to)}));
  c.Set(turns == 1 ? c.b.Transpose(flip(x, {to}), from, to) : c.b.Transpose(flip(x, {from}), from, to));
}

// tril, triu: the other side becomes zero.
void Triangle(OpContext& c, Op keep) {
  Value x = c.Tensor("self");
  if (RankOf(x) < 2) return c.Refuse("a triangle of fewer than two dimensions");
  std::vector<Expr> matrix(x.shape().end() - 2, x.shape().end());
  Value row = c.b.Iota(DType::kI64, matrix, 0), column = c.b.Iota(DType::kI64, matrix, 1);
  Value limit = c.b.Binary(Op::kAdd, row, Scalar(c.Int("diagonal", 0)));
  Value kept = c.b.BroadcastTo(c.b.Emit(keep, {column, limit}), x.shape());
  c.Set(c.b.Where(kept, x, Like(c.b, x, 0)));
}
void Tril(OpContext& c) { Triangle(c, Op::kLe); }
void Triu(OpContext& c) { Triangle(c, Op::kGe); }

// [n, c*r*r, h, w] -> [n, c, h*r, w*r]
void PixelShuffle(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) < 3) return c.Refuse("fewer than three dimensions");
  Expr r = c.Size("upscale_factor");
  int rank = RankOf(x), lead = rank - 3;
  std::vector<Expr> shape(x.shape().begin(), x.shape().begin() + lead);
  shape.insert(shape.end(), {c.ResultShape()[lead], r, r, x.shape()[rank - 2], x.shape()[rank - 1]});
  std::vector<int64_t> order(lead);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t offset : {0, 3, 1, 4, 2}) order.push_back(lead + offset);
  c.Set(c.b.Reshape(c.b.Permute(c.b.Reshape(x, shape), order), c.ResultShape()));
}

void PixelUnshuffle(OpContext& c) {
  Value x = c.Tensor("self");
  if (RankOf(x) < 3) return c.Refuse("fewer than three dimensions");
  Expr r = c.Size("downscale_factor");
  int rank = RankOf(x), lead = rank - 3;
  std::vector<Expr> shape(x.shape().begin(), x.shape().begin() + lead + 1);
  shape.insert(shape.end(), {c.ResultShape()[rank - 2], r, c.ResultShape()[rank - 1], r});
  std::vector<int64_t> order(lead);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t offset : {0, 2, 4, 1, 3}) order.push_back(lead + offset);
  c.Set(c.b.Reshape(c.b.Permute(c.b.Reshape(x, shape), order), c.ResultShape()));
}

void BroadcastTensors(OpContext& c) {
  std::vector<Value> tensors = c.Tensors("tensors");
  for (int i = 0; i < c.num_results() && i < static_cast<int>(tensors.size()); ++i) c.Set(i, tensors[i]);
}

void Meshgrid(OpContext& c) {
  std::vector<Value> vectors = c.Tensors("tensors");
  bool swap = c.Text("indexing", "ij") == "xy" && vectors.size() >= 2;
  for (int i = 0; i < c.num_results() && i < static_cast<int>(vectors.size()); ++i) {
    int64_t dim = swap && i < 2 ? 1 - i : i;
    c.Set(i, AlongDim(c.b, vectors[i], static_cast<int>(vectors.size()), dim));
  }
}

}  // namespace

Expr SliceStart(const Expr& start, const Expr& size) {
  Expr first = start;
  if (start.constant().value_or(0) < 0) first = start + size;
  if (first.constant().value_or(0) < 0) return 0;
  if (first.is_constant() && size.is_constant()) return Expr::Min(first, size);
  return first;
}

OpTable ViewOps() {
  OpTable table;
  for (const char* name : {"aten.view.default",         "aten.reshape.default",       "aten._unsafe_view.default",
                           "aten.flatten.using_ints",   "aten.unflatten.int",         "aten.ravel.default",
                           "aten.unsqueeze.default",    "aten.squeeze.default",       "aten.squeeze.dim",
                           "aten.squeeze.dims",         "aten.view_as.default",       "aten._reshape_alias.default",
                           "aten.reshape_as.default",   "aten.atleast_1d.default",    "aten.atleast_2d.default",
                           "aten.view_copy.default",    "aten._reshape_copy.default", "aten.unsqueeze_copy.default",
                           "aten.squeeze_copy.default", "aten.squeeze_copy.dim",      "aten.squeeze_copy.dims"}) {
    table.emplace_back(name, Reshape);
  }
  for (const char* name :
       {"aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default", "aten.expand_copy.default"}) {
    table.emplace_back(name, Expand);
  }
  for (const char* name :
       {"aten.split.Tensor", "aten.split.sizes", "aten.split.default", "aten.split_with_sizes.default",
        "aten.chunk.default", "aten.tensor_split.sections", "aten.tensor_split.indices", "aten.unsafe_chunk.default",
        "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default", "aten.split_copy.Tensor",
        "aten.split_with_sizes_copy.default"}) {
    table.emplace_back(name, Split);
  }
  for (const char* name :
       {"aten.alias.default", "aten.detach.default", "aten.detach_.default", "aten.lift_fresh.default"}) {
    table.emplace_back(name, Identity);
  }
  const OpTable others = {
      {"aten.permute.default", Permute},
      {"aten.transpose.int", Transpose},
      {"aten.t.default", T},
      {"aten.swapaxes.default", SwapAxes},
      {"aten.swapdims.default", Transpose},
      {"aten.mT.default", MatrixT},
      {"aten.adjoint.default", MatrixT},
      {"aten.numpy_T.default", NumpyT},
      {"aten.movedim.int", MoveDim},
      {"aten.movedim.intlist", MoveDim},
      {"aten.moveaxis.int", MoveDim},
      {"aten.moveaxis.intlist", MoveDim},
      {"aten.slice.Tensor", Slice},
      {"aten.narrow.default", Narrow},
      {"aten.select.int", SelectOp},
      {"aten.unbind.int", Unbind},
      {"aten.cat.default", Cat},
      {"aten.concat.default", Cat},
      {"aten.concatenate.default", Cat},
      {"aten.stack.default", Stack},
      {"aten.repeat.default", Repeat},
      {"aten.tile.default", Repeat},
      {"aten.repeat_interleave.self_int", RepeatInterleave},
      {"aten.flip.default", Flip},
      {"aten.roll.default", Roll},
      {"aten.unfold.default", Unfold},
      {"aten.diagonal.default", Diagonal},
      {"aten.tril.default", Tril},
      {"aten.triu.default", Triu},
      {"aten.pixel_shuffle.default", PixelShuffle},
      {"aten.pixel_unshuffle.default", PixelUnshuffle},
      {"aten.meshgrid.default", Meshgrid},
      {"aten.meshgrid.indexing", Meshgrid},
      {"aten.broadcast_tensors.default", BroadcastTensors},
      {"aten.slice_copy.Tensor", Slice},
      {"aten.permute_copy.default", Permute},
      {"aten.transpose_copy.int", Transpose},
      {"aten.select_copy.int", SelectOp},
      {"aten.narrow_copy.default", Narrow},
      {"aten.diagonal_copy.default", Diagonal},
      {"aten.unbind_copy.int", Unbind},
      {"aten.unfold_copy.default", Unfold},
      {"aten.t_copy.default", T},
      {"aten.trace.default", Trace},
      {"aten.rot90.default", Rotate},
      {"aten.channel_shuffle.default", ChannelShuffle},
      {"aten.native_channel_shuffle.default", ChannelShuffle},
      {"aten._chunk_cat.default", ChunkCat},
  };
  table.insert(table.end(), others.begin(), others.end());
  return table;
}

}  // namespace preheat::decompose
