// Gradients of parts and of indexing: zeros with the gradient put or added where the parts were.

#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/decompose/slices.h"
#include "compiler/capture/decompose/windows.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// x with zeros before and after it along a dimension, so that it has `size` there.
Value Embed(OpContext& c, Value x, int64_t dim, const Expr& before, const Expr& size) {
  if (!x) return x;
  std::vector<Expr> low(RankOf(x), Expr(0)), high(RankOf(x), Expr(0));
  low[dim] = before;
  high[dim] = size - before - x.shape()[dim];
  ir::AttrValue zero = std::visit([](auto v) { return ir::AttrValue(v); }, OpContext::Number(0, x.dtype()));
  return c.b.Emit(Op::kPad, {x}, {{"low", low}, {"high", high}, {"value", zero}});
}

Value PutInto(OpContext& c, const std::vector<Expr>& shape, Value index, Value rows, int64_t dim, const char* reduce) {
  if (!rows) return rows;
  Value zeros = c.Fill(0, rows.dtype(), shape);
  return c.b.Emit(Op::kPutRows, {zeros, index, rows}, {{"dim", dim}, {"reduce", std::string(reduce)}});
}

void SelectGrad(OpContext& c) {
  Value g = c.Tensor("grad_output");
  int rank = c.ResultType().rank();
  int64_t dim = c.Wrap(c.Int("dim"), rank);
  Expr index = c.Size("index");
  if (rank == 0) return c.Refuse("a 0-d tensor");
  const Expr& size = c.ResultShape()[dim];
  if (index.constant().value_or(0) < 0) index = index + size;
  c.Set(Embed(c, c.b.Unsqueeze(g, dim), dim, index, size));
}

void SliceGrad(OpContext& c) {
  Value g = c.Tensor("grad_output");
  if (RankOf(g) == 0) return c.Refuse("a 0-d tensor");
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(g)), step = c.Int("step", 1);
  const Expr& size = c.ResultShape()[dim];
  Expr start = SliceStart(c.Size("start", 0), size);
  if (step == 1) return c.Set(Embed(c, g, dim, start, size));
  Value rows = c.b.Binary(Op::kMul, c.b.Iota(DType::kI64, {g.shape()[dim]}, 0), Scalar(step));
  c.Set(PutInto(c, c.ResultShape(), c.b.Add(rows, c.b.Size(start)), g, dim, "set"));
}

// Rows of the table gather the gradients of all places that looked them up; padding gathers none.
void EmbeddingGrad(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value g = c.Operand("grad_output", dtype), index = c.Tensor("indices");
  if (c.Bool("scale_grad_by_freq", false)) return c.Refuse("scaling by frequency");
  if (!g || !index) return;
  int64_t padding = c.Int("padding_idx", -1);
  if (padding >= 0) {
    Value padded = c.b.Unsqueeze(c.b.Binary(Op::kEq, index, Scalar(padding)), -1);
    g = c.b.Where(padded, Like(c.b, g, 0), g);
  }
  Value flat = c.b.Reshape(index, {index.type().NumElements()});
  Value rows = c.b.Reshape(g, {index.type().NumElements(), c.ResultShape()[1]});
  c.Set(PutInto(c, c.ResultShape(), flat, rows, 0, "add"));
}

// Windows [.., count, .., size] added back where they were cut.
void UnfoldGrad(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value g = c.Operand("grad_in", dtype);
  int rank = c.ResultType().rank();
  int64_t dim = c.Wrap(c.Int("dim"), rank), size = c.Int("size"), step = c.Int("step");
  if (rank == 0 && g && g.type().NumElements() == Expr(1)) return c.Set(c.b.Reshape(g, {}));
  if (rank == 0 || RankOf(g) != rank + 1) return c.Refuse("a 0-d tensor");
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    order.push_back(i);
    if (i == dim) order.push_back(rank);
  }
  const Expr count = g.shape()[dim];
  std::vector<Expr> both = {count, Expr(size)};
  Value start = c.b.Binary(Op::kMul, c.b.Iota(DType::kI64, both, 0), Scalar(step));
  Value index = c.b.Add(start, c.b.Iota(DType::kI64, both, 1));
  c.Set(PutInto(c, c.ResultShape(), index, c.b.Permute(g, order), dim, "add"));
}

// Columns [n, c*kh*kw, blocks] added up as an image: into one with its padding, which is cut off.
void Col2Im(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value x = c.Operand("self", dtype);
  if (RankOf(x) == 2) x = c.b.Unsqueeze(x, 0);
  if (RankOf(x) != 3) return c.Refuse("no columns");
  Builder& b = c.b;
  Windows w = ReadWindows(c, 2);
  std::vector<Expr> out = c.ResultShape();
  if (out.size() == 3) out.insert(out.begin(), Expr(1));
  Expr wide = out[3] + 2 * w.padding[1], high = out[2] + 2 * w.padding[0];
  auto blocks = [&](int i) {
    Expr reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
    return Expr::FloorDiv(out[2 + i] + 2 * w.padding[i] - reach, w.stride[i]) + 1;
  };
  std::vector<Expr> grid = {Expr(w.kernel[0]), Expr(w.kernel[1]), blocks(0), blocks(1)};
  auto along = [&](int kernel_dim, int i) {
    Value inside = b.Binary(Op::kMul, b.Iota(DType::kI64, grid, kernel_dim), Scalar(w.dilation[i]));
    return b.Add(inside, b.Binary(Op::kMul, b.Iota(DType::kI64, grid, kernel_dim + 2), Scalar(w.stride[i])));
  };
  Value index = b.Add(b.Mul(along(0, 0), b.Size(wide)), along(1, 1));
  Expr elements = ir::NumElements(grid);
  Value rows = b.Reshape(x, {out[0], out[1], elements});
  Value image = PutInto(c, {out[0], out[1], high * wide}, b.Reshape(index, {elements}), rows, 2, "add");
  image = b.Reshape(image, {out[0], out[1], high, wide});
  image = b.SliceDim(b.SliceDim(image, 2, w.padding[0], out[2]), 3, w.padding[1], out[3]);
  c.Set(b.Reshape(image, c.ResultShape()));
}

}  // namespace

OpTable BackwardIndexOps() {
  return {
      {"aten.select_backward.default", SelectGrad},
      {"aten.slice_backward.default", SliceGrad},
      {"aten.embedding_dense_backward.default", EmbeddingGrad},
      {"aten.unfold_backward.default", UnfoldGrad},
      {"aten.col2im.default", Col2Im},
  };
}

}  // namespace preheat::decompose
