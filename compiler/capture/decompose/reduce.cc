// Reductions. Sums and means of 16-bit floats are taken in f32 and rounded once; integers are summed as i64.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

bool IsScalarShape(Value x) { return !x || x.type().rank() == 0; }

// Reduce, but nothing for a 0-d operand: Builder::Reduce reads no dims as all of them.
Value ReduceDims(Builder& b, Op op, Value x, const std::vector<int64_t>& dims, bool keepdim) {
  return IsScalarShape(x) ? x : b.Reduce(op, x, dims, keepdim);
}

// The operand in the dtype in which its sum is taken.
Value Summand(OpContext& c) { return c.Operand("self", ComputeType(c.ResultType().dtype)); }

int RankOf(Value x) { return x ? x.type().rank() : 0; }

LowerFn Reduction(Op op) {
  return [op](OpContext& c) {
    Value x = Summand(c);
    c.Set(ReduceDims(c.b, op, x, c.Dims("dim", RankOf(x)), c.Bool("keepdim", false)));
  };
}

// Those that keep the dtype and need no wider one.
LowerFn Extremum(Op op) {
  return [op](OpContext& c) {
    Value x = c.Tensor("self");
    if (x && x.dtype() == DType::kBool) x = c.b.Cast(x, DType::kU8);
    c.Set(ReduceDims(c.b, op, x, c.Dims("dim", RankOf(x)), c.Bool("keepdim", false)));
  };
}

LowerFn Truth(Op op) {
  return [op](OpContext& c) {
    Value x = c.Operand("self", DType::kBool);
    c.Set(ReduceDims(c.b, op, x, c.Dims("dim", RankOf(x)), c.Bool("keepdim", false)));
  };
}

void Mean(OpContext& c) {
  Value x = Summand(c);
  std::vector<int64_t> dims = c.Dims("dim", RankOf(x));
  c.Set(IsScalarShape(x) ? x : c.b.Mean(x, dims, c.Bool("keepdim", false)));
}

void NanSum(OpContext& c) {
  Value x = Summand(c);
  if (x && ir::IsFloat(x.dtype())) x = c.b.Where(c.b.Unary(Op::kIsNan, x), Like(c.b, x, 0), x);
  c.Set(ReduceDims(c.b, Op::kReduceSum, x, c.Dims("dim", RankOf(x)), c.Bool("keepdim", false)));
}

// argmax, or max with its position: results (values, indices).
Value ArgReduce(Builder& b, Op op, Value x, int64_t dim, bool keepdim) {
  if (x && x.dtype() == DType::kBool) x = b.Cast(x, DType::kU8);
  if (IsScalarShape(x)) return b.Fill(Scalar(int64_t{0}), DType::kI64);
  Value index = b.Emit(op, {x}, {{"dim", dim}});
  return keepdim ? b.Unsqueeze(index, dim) : index;
}

LowerFn ExtremumWithIndex(Op reduce, Op arg) {
  return [reduce, arg](OpContext& c) {
    Value x = c.Tensor("self");
    int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
    bool keepdim = c.Bool("keepdim", false);
    if (c.Wanted(0)) {
      Value values = x && x.dtype() == DType::kBool ? c.b.Cast(x, DType::kU8) : x;
      c.Set(0, ReduceDims(c.b, reduce, values, {dim}, keepdim));
    }
    if (c.Wanted(1)) c.Set(1, ArgReduce(c.b, arg, x, dim, keepdim));
  };
}

// Results: minimum, maximum; of all elements, or along a dimension.
void MinMax(OpContext& c) {
  Value x = c.Tensor("self");
  if (x && x.dtype() == DType::kBool) x = c.b.Cast(x, DType::kU8);
  std::vector<int64_t> dims = c.Dims("dim", RankOf(x));
  const Op ops[] = {Op::kReduceMin, Op::kReduceMax};
  for (int i : {0, 1}) c.Set(i, ReduceDims(c.b, ops[i], x, dims, c.Bool("keepdim", false)));
}

LowerFn ArgExtremum(Op op) {
  return [op](OpContext& c) {
    Value x = c.Tensor("self");
    bool keepdim = c.Bool("keepdim", false);
    if (c.Has("dim")) return c.Set(ArgReduce(c.b, op, x, c.Wrap(c.Int("dim"), RankOf(x)), keepdim));
    if (!x) return;
    Value flat = ArgReduce(c.b, op, c.b.Reshape(x, {x.type().NumElements()}), 0, false);
    c.Set(c.b.Reshape(flat, c.ResultShape()));
  };
}

// --- Variance: two passes; the divisor is n - correction, not below 0 ---

struct Spread {
  Value mean, variance;  // dims kept
};
Spread SpreadOf(OpContext& c, Value x, const std::vector<int64_t>& dims) {
  double correction = c.Has("correction") ? c.Double("correction", 1) : c.Bool("unbiased", true) ? 1 : 0;
  Deviations d = DeviationsOf(c.b, x, IsScalarShape(x) ? std::vector<int64_t>{} : dims);
  Expr count = CountOf(x, dims);
  if (std::optional<int64_t> n = count.constant()) {
    double divisor = std::max(0.0, static_cast<double>(*n) - correction);
    return {d.mean, c.b.Binary(Op::kDiv, d.squares, Scalar(divisor))};
  }
  if (correction != std::floor(correction)) c.Refuse("a fractional correction of a symbolic size");
  return {d.mean, DivBySize(c.b, d.squares, Expr::Max(count - static_cast<int64_t>(correction), 0))};
}

Value DropDims(OpContext& c, Value x, const std::vector<Expr>& shape) { return c.b.Reshape(x, shape); }

void Var(OpContext& c) {
  Value x = Summand(c);
  c.Set(DropDims(c, SpreadOf(c, x, c.Dims("dim", RankOf(x))).variance, c.ResultShape()));
}
void Std(OpContext& c) {
  Value x = Summand(c);
  Value variance = SpreadOf(c, x, c.Dims("dim", RankOf(x))).variance;
  c.Set(DropDims(c, c.b.Unary(Op::kSqrt, variance), c.ResultShape()));
}
void VarMean(OpContext& c) {
  Value x = Summand(c);
  Spread spread = SpreadOf(c, x, c.Dims("dim", RankOf(x)));
  if (c.Wanted(0)) c.Set(0, DropDims(c, spread.variance, c.ResultShape(0)));
  if (c.Wanted(1)) c.Set(1, DropDims(c, spread.mean, c.ResultShape(1)));
}
void StdMean(OpContext& c) {
  Value x = Summand(c);
  Spread spread = SpreadOf(c, x, c.Dims("dim", RankOf(x)));
  if (c.Wanted(0)) c.Set(0, DropDims(c, c.b.Unary(Op::kSqrt, spread.variance), c.ResultShape(0)));
  if (c.Wanted(1)) c.Set(1, DropDims(c, spread.mean, c.ResultShape(1)));
}

// --- Norms ---

Value PNorm(OpContext& c, Value x, double p, const std::vector<int64_t>& dims, bool keepdim) {
  Builder& b = c.b;
  Value size = b.Unary(Op::kAbs, x);
  auto sum = [&](Value v) { return ReduceDims(b, Op::kReduceSum, v, dims, keepdim); };
  if (p == 2) return b.Unary(Op::kSqrt, sum(b.Mul(x, x)));
  if (p == 1) return sum(size);
  if (p == 0) return sum(b.Cast(b.Binary(Op::kNe, x, Scalar(0.0)), x ? x.dtype() : DType::kF32));
  if (std::isinf(p)) return ReduceDims(b, p > 0 ? Op::kReduceMax : Op::kReduceMin, size, dims, keepdim);
  return b.Binary(Op::kPow, sum(b.Binary(Op::kPow, size, Scalar(p))), Scalar(1 / p));
}

void VectorNorm(OpContext& c) {
  Value x = Summand(c);
  c.Set(PNorm(c, x, c.Double("ord", 2), c.Dims("dim", RankOf(x)), c.Bool("keepdim", false)));
}
void Norm(OpContext& c) {
  Value x = Summand(c);
  c.Set(PNorm(c, x, c.Double("p", 2), c.Dims("dim", RankOf(x)), c.Bool("keepdim", false)));
}

// Slices along a dimension whose norm is above a bound are scaled down to it.
void Renorm(OpContext& c) {
  Value x = Summand(c);
  if (RankOf(x) < 2) return c.Refuse("fewer than two dimensions");
  int64_t dim = c.Wrap(c.Int("dim"), RankOf(x));
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < RankOf(x); ++i) {
    if (i != dim) dims.push_back(i);
  }
  double bound = c.Double("maxnorm", 0);
  Value norm = PNorm(c, x, c.Double("p", 2), dims, true);
  Value factor = c.b.Div(Like(c.b, norm, bound), c.b.Add(norm, 1e-7));
  factor = c.b.Where(c.b.Binary(Op::kGt, norm, Like(c.b, norm, bound)), factor, Like(c.b, norm, 1));
  c.Set(c.b.Mul(x, factor));
}

// --- Distances ---

void Distance(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  Value x = c.Operand("self", dtype), difference = c.b.Sub(x, c.Operand("other", dtype));
  c.Set(PNorm(c, difference, c.Double("p", 2), c.Dims("dim", RankOf(difference)), false));
}

// Differences of each row of x1 [..., p, m] and each row of x2 [..., r, m]: [..., p, r, m].
Value RowDifferences(OpContext& c, DType dtype) {
  return c.b.Sub(c.b.Unsqueeze(c.Operand("x1", dtype), -2), c.b.Unsqueeze(c.Operand("x2", dtype), -3));
}

void RowDistances(OpContext& c) {
  Value difference = RowDifferences(c, ComputeType(c.ResultType().dtype));
  if (!difference) return;
  c.Set(PNorm(c, difference, c.Double("p", 2), {RankOf(difference) - 1}, false));
}

// The gradient of x1. Where a distance is 0 it has none.
void RowDistancesGrad(OpContext& c) {
  Builder& b = c.b;
  DType dtype = ComputeType(c.ResultType().dtype);
  Value d = RowDifferences(c, dtype), g = b.Unsqueeze(c.Operand("grad", dtype), -1);
  Value distance = b.Unsqueeze(c.Operand("cdist", dtype), -1), size = b.Unary(Op::kAbs, d);
  double p = c.Double("p", 2);
  if (!d) return;
  Value slope = b.Unary(Op::kSign, d);
  if (p == 2) {
    slope = b.Div(d, distance);
  } else if (std::isinf(p)) {
    slope = b.Mul(slope, b.Cast(b.Binary(Op::kEq, size, distance), dtype));
  } else if (p != 1) {
    Value ratio = b.Div(b.Binary(Op::kPow, size, Scalar(p - 1)), b.Binary(Op::kPow, distance, Scalar(p - 1)));
    slope = b.Where(b.Binary(Op::kEq, size, Scalar(0.0)), Like(b, d, 0), b.Mul(slope, ratio));
  }
  Value none = p == 0 ? Like(b, d, 1) : distance;
  none = b.Binary(Op::kEq, none, p == 0 ? Like(b, none, 1) : Like(b, none, 0));
  Value product = b.Mul(g, slope);
  Value grad = b.Where(none, Like(b, product, 0), product);
  c.Set(b.Reduce(Op::kReduceSum, grad, {RankOf(d) - 2}, false));
}

void CountNonzero(OpContext& c) {
  Value x = c.b.Cast(c.Operand("self", DType::kBool), DType::kI64);
  c.Set(ReduceDims(c.b, Op::kReduceSum, x, c.Dims("dim", RankOf(x)), false));
}

}  // namespace

OpTable ReduceOps() {
  return {
      {"aten.sum.default", Reduction(Op::kReduceSum)},
      {"aten.sum.dim_IntList", Reduction(Op::kReduceSum)},
      {"aten.nansum.default", NanSum},
      {"aten.prod.default", Reduction(Op::kReduceProd)},
      {"aten.prod.dim_int", Reduction(Op::kReduceProd)},
      {"aten.mean.default", Mean},
      {"aten.mean.dim", Mean},
      {"aten.amax.default", Extremum(Op::kReduceMax)},
      {"aten.amin.default", Extremum(Op::kReduceMin)},
      {"aten.max.default", Extremum(Op::kReduceMax)},
      {"aten.min.default", Extremum(Op::kReduceMin)},
      {"aten.max.dim", ExtremumWithIndex(Op::kReduceMax, Op::kArgMax)},
      {"aten.min.dim", ExtremumWithIndex(Op::kReduceMin, Op::kArgMin)},
      {"aten.aminmax.default", MinMax},
      {"aten.argmax.default", ArgExtremum(Op::kArgMax)},
      {"aten.argmin.default", ArgExtremum(Op::kArgMin)},
      {"aten.any.default", Truth(Op::kReduceAny)},
      {"aten.any.dim", Truth(Op::kReduceAny)},
      {"aten.any.dims", Truth(Op::kReduceAny)},
      {"aten.all.default", Truth(Op::kReduceAll)},
      {"aten.all.dim", Truth(Op::kReduceAll)},
      {"aten.all.dims", Truth(Op::kReduceAll)},
      {"aten.var.default", Var},
      {"aten.var.dim", Var},
      {"aten.var.correction", Var},
      {"aten.std.default", Std},
      {"aten.std.dim", Std},
      {"aten.std.correction", Std},
      {"aten.var_mean.default", VarMean},
      {"aten.var_mean.dim", VarMean},
      {"aten.var_mean.correction", VarMean},
      {"aten.std_mean.default", StdMean},
      {"aten.std_mean.dim", StdMean},
      {"aten.std_mean.correction", StdMean},
      {"aten.linalg_vector_norm.default", VectorNorm},
      {"aten.norm.ScalarOpt_dim", Norm},
      {"aten.norm.ScalarOpt_dim_dtype", Norm},
      {"aten.norm.Scalar", Norm},
      {"aten.renorm.default", Renorm},
      {"aten.dist.default", Distance},
      {"aten._cdist_forward.default", RowDistances},
      {"aten._cdist_backward.default", RowDistancesGrad},
      {"aten.count_nonzero.default", CountNonzero},
      {"aten.count_nonzero.dim_IntList", CountNonzero},
  };
}

}  // namespace preheat::decompose
