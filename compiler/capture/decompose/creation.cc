// Tensors that come from sizes and numbers alone.

#include <cmath>

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

// From both ends toward the middle, as eager does.
void Linspace(OpContext& c) {
  DType dtype = c.ResultType().dtype;
  if (!ir::IsFloat(dtype)) return c.Refuse("integers");
  std::optional<int64_t> steps = c.Size("steps").constant();
  if (!steps) return c.Refuse("a symbolic number of steps");
  if (*steps == 1) return c.Set(c.Operand("start", dtype));
  DType compute = ComputeType(dtype);
  Value start = c.Operand("start", compute), end = c.Operand("end", compute);
  Value step = c.b.Binary(Op::kDiv, c.b.Sub(end, start), Scalar(static_cast<double>(*steps - 1)));
  Value index = c.b.Iota(compute, {Expr(*steps)}, 0);
  Value from_end = c.b.Sub(Like(c.b, index, static_cast<double>(*steps - 1)), index);
  Value first = c.b.Binary(Op::kLt, index, Scalar(static_cast<double>(*steps / 2)));
  c.Set(c.b.Where(first, c.b.Add(start, c.b.Mul(index, step)), c.b.Sub(end, c.b.Mul(from_end, step))));
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
  for (const char* name : {"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"})
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
  table.emplace_back("aten.linspace.default", Linspace);
  table.emplace_back("aten.eye.default", Eye);
  table.emplace_back("aten.eye.m", Eye);
  return table;
}

}  // namespace preheat::decompose
