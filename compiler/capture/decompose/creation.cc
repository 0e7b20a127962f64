// Tensors that come from sizes and numbers alone.

#include <cmath>
#include <string>
#include <vector>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

void FillValue(OpContext& c) {
  const char* name = c.Arg("fill_value") != nullptr ? "fill_value" : c.Arg("s") != nullptr ? "s" : "value";
  c.Set(c.Operand(name, c.ResultType().dtype));
}

LowerFn All(double value) {
  return [value](OpContext& c) { c.Set(c.Fill(value, c.ResultType().dtype)); };
}

// start + i * step. Eager counts floats in double and rounds each element once.
void Arange(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  const Expr& size = c.ResultShape()[0];
  DType count = ir::IsFloat(dtype) ? DType::kF64 : DType::kI64;
  Value index = c.b.Iota(count, {size}, 0);
  if (c.Arg("step") != nullptr) index = c.b.Mul(index, c.Operand("step", count));
  if (c.Arg("start") != nullptr) index = c.b.Add(index, c.Operand("start", count));
  c.Set(index);
}

// Points from `start` to `end`, counted from both ends toward the middle as eager does; as values of `dtype`.
Value Spaced(OpContext& c, DType dtype) {
  std::optional<int64_t> steps = c.Size("steps").constant();
  if (!steps) {
    c.Refuse("a symbolic number of steps");
    return {};
  }
  Value start = c.Operand("start", dtype), end = c.Operand("end", dtype);
  if (*steps <= 1) return c.b.BroadcastTo(start, {Expr(*steps)});
  Value step = c.b.Binary(Op::kDiv, c.b.Sub(end, start), Scalar(static_cast<double>(*steps - 1)));
  Value index = c.b.Iota(dtype, {Expr(*steps)}, 0);
  Value from_end = c.b.Sub(Like(c.b, index, static_cast<double>(*steps - 1)), index);
  Value first = c.b.Binary(Op::kLt, index, Scalar(static_cast<double>(*steps / 2)));
  return c.b.Where(first, c.b.Add(start, c.b.Mul(index, step)), c.b.Sub(end, c.b.Mul(from_end, step)));
}

// Eager's integers depend on how its loops are vectorized.
void Linspace(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  if (!ir::IsFloat(dtype)) return c.Refuse("integers");
  c.Set(Spaced(c, ComputeType(dtype)));
}

void Logspace(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  if (!ir::IsFloat(dtype)) return c.Refuse("integers");  // eager's depend on the last bit of a power
  Value exponents = Spaced(c, ComputeType(dtype));
  c.Set(c.b.Binary(Op::kPow, Like(c.b, exponents, c.Double("base", 10)), exponents));
}

// Rows and columns of a triangle's elements, in order of rows.
LowerFn TriangleIndices(bool lower) {
  return [lower](OpContext& c) {
    int64_t rows = c.Int("row"), columns = c.Int("col"), offset = c.Int("offset", 0);
    std::optional<int64_t> n = c.ResultShape()[1].constant();
    if (!n || *n > 256) return c.Refuse("many elements");  // a constant of 4096 bytes
    std::vector<int64_t> places[2];
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        if (lower ? j > i + offset : j < i + offset) continue;
        places[0].push_back(i);
        places[1].push_back(j);
      }
    }
    std::string bytes;
    for (const std::vector<int64_t>& row : places)
      bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(int64_t));
    if (static_cast<int64_t>(places[0].size()) != *n) return c.Refuse("another number of elements");
    c.Set(c.b.Constant(DType::kI64, c.ResultShape(), bytes));
  };
}

void Eye(OpContext& c) {
  Value row = c.b.Iota(DType::kI64, c.ResultShape(), 0), column = c.b.Iota(DType::kI64, c.ResultShape(), 1);
  c.Set(c.b.Binary(Op::kEq, row, column));
}

// What is uninitialized in eager is zero here.
void Empty(OpContext& c) { c.Set(c.Fill(0, c.ResultType().dtype)); }

}  // namespace

OpTable CreationOps() {
  OpTable table;
  for (const char* name :
       {"aten.full.default", "aten.full_like.default", "aten.new_full.default", "aten.scalar_tensor.default"}) {
    table.emplace_back(name, FillValue);
  }
  for (const char* name :
       {"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten._efficientzerotensor.default"})
    table.emplace_back(name, All(0));
  for (const char* name : {"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"})
    table.emplace_back(name, All(1));
  for (const char* name :
       {"aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default",
        "aten.new_empty_strided.default", "aten.empty_permuted.default"}) {
    table.emplace_back(name, Empty);
  }
  for (const char* name : {"aten.arange.default", "aten.arange.start", "aten.arange.start_step"})
    table.emplace_back(name, Arange);
  for (const char* name : {"aten.linspace.default", "aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar",
                           "aten.linspace.Scalar_Tensor"}) {
    table.emplace_back(name, Linspace);
  }
  for (const char* name : {"aten.logspace.default", "aten.logspace.Tensor_Tensor", "aten.logspace.Tensor_Scalar",
                           "aten.logspace.Scalar_Tensor"}) {
    table.emplace_back(name, Logspace);
  }
  table.emplace_back("aten.tril_indices.default", TriangleIndices(true));
  table.emplace_back("aten.triu_indices.default", TriangleIndices(false));
  table.emplace_back("aten.eye.default", Eye);
  table.emplace_back("aten.eye.m", Eye);
  return table;
}

}  // namespace preheat::decompose
