// Matrix products. They stay in their dtype: the library accumulates 16-bit floats in f32.

#include <algorithm>
#include <string>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/products.h"

namespace preheat::decompose {
namespace {

int RankOf(Value x) { return x ? x.type().rank() : 0; }

// [..., m, k] as [rows, k].
Value Flatten(Builder& b, Value x) {
  std::vector<Expr> lead(x.shape().begin(), x.shape().end() - 1);
  return b.Reshape(x, {ir::NumElements(lead), x.shape().back()});
}

Value TimesMatrix(Builder& b, Value x, Value matrix) {
  if (RankOf(x) == 2) return b.MatMul(x, matrix);
  std::vector<Expr> shape(x.shape().begin(), x.shape().end() - 1);
  shape.push_back(matrix.shape()[1]);
  return b.Reshape(b.MatMul(Flatten(b, x), matrix), shape);
}

Value BatchedMatMul(Builder& b, Value x, Value y) {
  std::vector<Expr> bx(x.shape().begin(), x.shape().end() - 2), by(y.shape().begin(), y.shape().end() - 2);
  std::vector<Expr> batch = b.BroadcastShape(bx, by);
  auto widen = [&](Value v) {
    std::vector<Expr> shape = batch;
    shape.insert(shape.end(), v.shape().end() - 2, v.shape().end());
    return b.BroadcastTo(v, shape);
  };
  return b.MatMul(widen(x), widen(y));
}

// beta * self + alpha * product. In f32 and f64 this is exactly how eager's library does it; 16-bit floats
// are scaled and added in f32.
Value Combine(OpContext& c, Value self, Value product, double beta, double alpha) {
  DType dtype = ComputeType(product ? product.dtype() : DType::kF32);
  auto scale = [&](Value v, double by) { return by == 1 ? v : c.b.Binary(Op::kMul, v, OpContext::Number(by, dtype)); };
  Value scaled = scale(c.b.Cast(product, dtype), alpha);
  if (beta == 0) return scaled;  // self is not even read: its NaNs do not count
  return c.b.Add(scaled, scale(c.b.Cast(self, dtype), beta));
}

void AddProduct(OpContext& c, Value product) {
  c.Set(Combine(c, c.Tensor("self"), product, c.Double("beta", 1), c.Double("alpha", 1)));
}

LowerFn Product(const char* first, const char* second) {
  return [first, second](OpContext& c) {
    Value x = c.Tensor(first), y = c.Tensor(second);
    c.Set(MatMulBroadcast(c.b, x, y));
  };
}

void AddMM(OpContext& c) { AddProduct(c, c.b.MatMul(c.Tensor("mat1"), c.Tensor("mat2"))); }
void AddMV(OpContext& c) { AddProduct(c, MatMulBroadcast(c.b, c.Tensor("mat"), c.Tensor("vec"))); }
void BAddBMM(OpContext& c) { AddProduct(c, c.b.MatMul(c.Tensor("batch1"), c.Tensor("batch2"))); }
void AddBMM(OpContext& c) {
  Value products = c.b.MatMul(c.Tensor("batch1"), c.Tensor("batch2"));
  Value wide = c.b.Cast(products, ComputeType(c.ResultType().dtype));
  AddProduct(c, c.b.Reduce(Op::kReduceSum, wide, {0}, false));
}
void Outer(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value column = c.b.Unsqueeze(c.Operand("self", dtype), 1), row = c.b.Unsqueeze(c.Operand("vec2", dtype), 0);
  c.Set(c.b.Mul(column, row));
}
void AddR(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value column = c.b.Unsqueeze(c.Operand("vec1", dtype), 1), row = c.b.Unsqueeze(c.Operand("vec2", dtype), 0);
  AddProduct(c, c.b.Mul(column, row));
}
// The sum over some dimensions of the product of three tensors, each given dimensions of size 1 first.
void Trilinear(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value product;
  for (const char* number : {"1", "2", "3"}) {
    Value x = c.Operand(std::string("i") + number, dtype);
    std::vector<int64_t> expand = c.Ints(std::string("expand") + number);
    std::sort(expand.begin(), expand.end());
    for (int64_t dim : expand) x = c.b.Unsqueeze(x, dim);
    product = product ? c.b.Mul(product, x) : x;
  }
  std::vector<int64_t> dims = c.Dims("sumdim", RankOf(product));
  c.Set(c.Ints("sumdim").empty() ? product : c.b.Reduce(Op::kReduceSum, product, dims, false));
}

// Vectors of three along a dimension.
void Cross(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value x = c.b.BroadcastTo(c.Operand("self", dtype), c.ResultShape());
  Value y = c.b.BroadcastTo(c.Operand("other", dtype), c.ResultShape());
  int64_t dim = c.Wrap(c.Int("dim", -1), c.ResultType().rank());
  auto at = [&](Value v, int64_t i) { return c.b.SliceDim(v, dim, i, 1); };
  std::vector<Value> parts;
  for (int64_t i = 0; i < 3; ++i) {
    int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    Value first = c.b.Mul(at(x, j), at(y, k)), second = c.b.Mul(at(x, k), at(y, j));
    parts.push_back(c.b.Sub(first, second));
  }
  c.Set(c.b.Concat(parts, dim));
}
void LinearOp(OpContext& c) { c.Set(Linear(c.b, c.Tensor("input"), c.Tensor("weight"), c.OptionalTensor("bias"))); }

}  // namespace

Value MatMulBroadcast(Builder& b, Value x, Value y) {
  if (!x || !y || RankOf(x) == 0 || RankOf(y) == 0) {
    b.Fail(absl::InvalidArgumentError("matmul of a 0-d tensor"));
    return {};
  }
  if (RankOf(x) == 1 && RankOf(y) == 1) {
    Value product = b.MatMul(b.Unsqueeze(x, 0), b.Unsqueeze(y, 1));
    return b.Reshape(product, {});
  }
  if (RankOf(x) == 1) return b.Squeeze(MatMulBroadcast(b, b.Unsqueeze(x, 0), y), -2);
  if (RankOf(y) == 1) return b.Squeeze(MatMulBroadcast(b, x, b.Unsqueeze(y, 1)), -1);
  return RankOf(y) == 2 ? TimesMatrix(b, x, y) : BatchedMatMul(b, x, y);
}

Value Linear(Builder& b, Value x, Value w, Value bias) {
  if (!x || !w) return {};
  Value product = RankOf(w) == 1 ? MatMulBroadcast(b, x, w) : MatMulBroadcast(b, x, b.Transpose(w, 0, 1));
  if (!bias || !product) return product;
  DType dtype = product.dtype(), compute = ComputeType(dtype);
  return b.Cast(b.Add(b.Cast(product, compute), b.Cast(bias, compute)), dtype);
}

OpTable MatMulOps() {
  return {
      {"aten.mm.default", Product("self", "mat2")},
      {"aten.bmm.default", Product("self", "mat2")},
      {"aten.matmul.default", Product("self", "other")},
      {"aten.linalg_matmul.default", Product("self", "other")},
      {"aten.__matmul__.default", Product("self", "other")},
      {"aten.mv.default", Product("self", "vec")},
      {"aten.dot.default", Product("self", "tensor")},
      {"aten.vdot.default", Product("self", "other")},
      {"aten.addmm.default", AddMM},
      {"aten.addmv.default", AddMV},
      {"aten.baddbmm.default", BAddBMM},
      {"aten.addbmm.default", AddBMM},
      {"aten._trilinear.default", Trilinear},
      {"aten.linalg_cross.default", Cross},
      {"aten.outer.default", Outer},
      {"aten.ger.default", Outer},
      {"aten.addr.default", AddR},
      {"aten.linear.default", LinearOp},
  };
}

}  // namespace preheat::decompose
