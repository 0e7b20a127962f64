// Softmax and its relatives: the maximum is subtracted first, statistics are f32 for 16-bit floats.

#include <cmath>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

template <typename Formula>
void AlongOneDim(OpContext& c, const Formula& formula) {
  Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
  if (!x) return;
  int64_t dim = c.Wrap(c.Int("dim"), x.type().rank());
  if (x.type().rank() > 0) return c.Set(formula(x, dim));
  c.Set(c.b.Reshape(formula(c.b.Reshape(x, {Expr(1)}), 0), {}));
}

void SoftmaxOp(OpContext& c) {
  AlongOneDim(c, [&](Value x, int64_t dim) { return Softmax(c.b, x, dim); });
}
void SafeSoftmax(OpContext& c) {
  if (c.ResultType().rank() == 1) return c.Refuse("a single row");  // eager's sum is as good, and its bits are compared
  AlongOneDim(c, [&](Value x, int64_t dim) { return Softmax(c.b, x, dim, /*masked=*/true); });
}
void LogSoftmaxOp(OpContext& c) {
  AlongOneDim(c, [&](Value x, int64_t dim) { return LogSoftmax(c.b, x, dim); });
}
void Softmin(OpContext& c) {
  AlongOneDim(c, [&](Value x, int64_t dim) { return Softmax(c.b, c.b.Unary(Op::kNeg, x), dim); });
}

// log(sum(exp(x))): an infinite maximum is not subtracted.
void LogSumExp(OpContext& c) {
  Value x = c.Operand("self", ComputeType(c.ResultType().dtype));
  if (!x || x.type().rank() == 0) return c.Set(x);
  std::vector<int64_t> dims = c.Dims("dim", x.type().rank());
  bool keepdim = c.Bool("keepdim", false);
  Value max = c.b.Reduce(Op::kReduceMax, x, dims, true);
  Value infinite = c.b.Binary(Op::kEq, c.b.Unary(Op::kAbs, max), Scalar(INFINITY));
  max = c.b.Where(infinite, Like(c.b, max, 0), max);
  Value sum = c.b.Reduce(Op::kReduceSum, c.b.Unary(Op::kExp, c.b.Sub(x, max)), dims, true);
  Value result = c.b.Add(c.b.Unary(Op::kLog, sum), max);
  c.Set(keepdim ? result : c.b.Reshape(result, c.ResultShape()));
}

}  // namespace

OpTable SoftmaxOps() {
  return {
      {"aten._softmax.default", SoftmaxOp},
      {"aten.softmax.int", SoftmaxOp},
      {"aten.special_softmax.int", SoftmaxOp},
      {"aten._safe_softmax.default", SafeSoftmax},
      {"aten._log_softmax.default", LogSoftmaxOp},
      {"aten.log_softmax.int", LogSoftmaxOp},
      {"aten.special_log_softmax.int", LogSoftmaxOp},
      {"aten.logsumexp.default", LogSumExp},
      {"aten.softmin.int", Softmin},
  };
}

}  // namespace preheat::decompose
