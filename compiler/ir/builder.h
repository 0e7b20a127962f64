#ifndef PREHEAT_COMPILER_IR_BUILDER_H_
#define PREHEAT_COMPILER_IR_BUILDER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// Writes expressions into a graph. The first failure sticks: later calls return null values and
// `status()` tells it, so that decompositions read like formulas.
class Builder {
 public:
  explicit Builder(Graph* graph) : graph_(graph) {}

  Graph& graph() { return *graph_; }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // Debug id given to nodes added from now on.
  void SetDebugId(int id) { debug_id_ = id; }

  // Any operator with one result.
  Value Emit(Op op, absl::Span<const Value> operands, Attrs attrs = {}, std::vector<TensorType> declared = {});
  // Any operator; all results, empty on failure.
  std::vector<Value> EmitAll(Op op, absl::Span<const Value> operands, Attrs attrs = {},
                             std::vector<TensorType> declared = {});

  // Leaves.
  Value Fill(Scalar value, DType dtype, std::vector<Expr> shape = {});
  Value Iota(DType dtype, std::vector<Expr> shape, int dim);
  Value Size(const Expr& value);  // 0-d i64
  Value Constant(DType dtype, std::vector<Expr> shape, std::string data);

  // Pointwise with numpy broadcasting of shapes (dtypes must agree already).
  Value Unary(Op op, Value x) { return Emit(op, {x}); }
  Value Binary(Op op, Value a, Value b);
  Value Binary(Op op, Value a, Scalar b);  // b as a's dtype and shape
  Value Add(Value a, Value b) { return Binary(Op::kAdd, a, b); }
  Value Sub(Value a, Value b) { return Binary(Op::kSub, a, b); }
  Value Mul(Value a, Value b) { return Binary(Op::kMul, a, b); }
  Value Div(Value a, Value b) { return Binary(Op::kDiv, a, b); }
  Value Add(Value a, double b) { return Binary(Op::kAdd, a, Scalar(b)); }
  Value Mul(Value a, double b) { return Binary(Op::kMul, a, Scalar(b)); }
  Value Where(Value condition, Value then, Value otherwise);
  Value Cast(Value x, DType dtype);  // x itself when it has that dtype

  // Shapes. Negative dims count from the end here, as in torch.
  Value Reshape(Value x, std::vector<Expr> shape);
  Value Permute(Value x, std::vector<int64_t> dims);
  Value Transpose(Value x, int64_t a, int64_t b);
  Value Unsqueeze(Value x, int64_t dim);
  Value Squeeze(Value x, int64_t dim);                         // drops a dimension of size 1
  Value BroadcastTo(Value x, const std::vector<Expr>& shape);  // numpy: adds leading dims, grows 1s
  Value SliceDim(Value x, int64_t dim, Expr start, Expr size, int64_t step = 1);
  Value Concat(absl::Span<const Value> parts, int64_t dim);

  // Reductions; keepdim leaves size-1 dims. Empty dims: all of them.
  Value Reduce(Op op, Value x, std::vector<int64_t> dims, bool keepdim);
  Value Mean(Value x, std::vector<int64_t> dims, bool keepdim);
  Value MatMul(Value a, Value b) { return Emit(Op::kMatMul, {a, b}); }

  // The shape two shapes broadcast to; fails (sticking) when they do not.
  std::vector<Expr> BroadcastShape(absl::Span<const Expr> a, absl::Span<const Expr> b);

 private:
  int64_t Dim(Value x, int64_t dim);  // wraps negatives, checks

  Graph* graph_;
  absl::Status status_;
  int debug_id_ = -1;
};

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_BUILDER_H_
