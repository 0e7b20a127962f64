#include "compiler/ir/builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/scalar.h"

namespace preheat::ir {

std::vector<Value> Builder::EmitAll(Op op, absl::Span<const Value> operands, Attrs attrs,
                                    std::vector<TensorType> declared) {
  if (!status_.ok()) return {};
  absl::StatusOr<const Node*> node = graph_->Add(op, operands, std::move(attrs), std::move(declared), debug_id_);
  if (!node.ok()) {
    Fail(node.status());
    return {};
  }
  std::vector<Value> results;
  for (size_t i = 0; i < (*node)->results().size(); ++i) results.push_back((*node)->result(static_cast<int>(i)));
  return results;
}

Value Builder::Emit(Op op, absl::Span<const Value> operands, Attrs attrs, std::vector<TensorType> declared) {
  std::vector<Value> results = EmitAll(op, operands, std::move(attrs), std::move(declared));
  return results.empty() ? Value{} : results[0];
}

Value Builder::Fill(Scalar value, DType dtype, std::vector<Expr> shape) {
  Attrs attrs;
  std::visit([&](auto v) { attrs["value"] = v; }, value);
  return Emit(Op::kFill, {}, std::move(attrs), {TensorType{dtype, std::move(shape)}});
}

Value Builder::Iota(DType dtype, std::vector<Expr> shape, int dim) {
  return Emit(Op::kIota, {}, {{"dim", int64_t{dim}}}, {TensorType{dtype, std::move(shape)}});
}

Value Builder::Size(const Expr& value) {
  if (auto constant = value.constant()) return Fill(*constant, DType::kI64);
  return Emit(Op::kSize, {}, {{"value", value}}, {TensorType{DType::kI64, {}}});
}

Value Builder::Constant(DType dtype, std::vector<Expr> shape, std::string data) {
  return Emit(Op::kConstant, {}, {{"data", std::move(data)}}, {TensorType{dtype, std::move(shape)}});
}

std::vector<Expr> Builder::BroadcastShape(absl::Span<const Expr> a, absl::Span<const Expr> b) {
  size_t rank = std::max(a.size(), b.size());
  std::vector<Expr> shape(rank, Expr(1));
  for (size_t i = 1; i <= rank; ++i) {
    Expr x = i <= a.size() ? a[a.size() - i] : Expr(1);
    Expr y = i <= b.size() ? b[b.size() - i] : Expr(1);
    if (x != y && x != Expr(1) && y != Expr(1)) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("sizes ", x.ToString(), " and ", y.ToString(), " do not broadcast (dimension -", i, ")")));
      return {};
    }
    shape[rank - i] = x == Expr(1) ? y : x;
  }
  return shape;
}

Value Builder::Binary(Op op, Value a, Value b) {
  if (!status_.ok() || !a || !b) return Emit(op, {a, b});
  if (a.shape() == b.shape()) return Emit(op, {a, b});
  std::vector<Expr> shape = BroadcastShape(a.shape(), b.shape());
  return Emit(op, {BroadcastTo(a, shape), BroadcastTo(b, shape)});
}

Value Builder::Binary(Op op, Value a, Scalar b) {
  if (!status_.ok() || !a) return Emit(op, {a, a});
  return Emit(op, {a, Fill(b, a.dtype(), a.shape())});
}

Value Builder::Where(Value condition, Value then, Value otherwise) {
  if (!status_.ok() || !condition || !then || !otherwise) return Emit(Op::kWhere, {condition, then, otherwise});
  std::vector<Expr> shape = BroadcastShape(BroadcastShape(condition.shape(), then.shape()), otherwise.shape());
  return Emit(Op::kWhere, {BroadcastTo(condition, shape), BroadcastTo(then, shape), BroadcastTo(otherwise, shape)});
}

Value Builder::Cast(Value x, DType dtype) {
  if (status_.ok() && x && x.dtype() == dtype) return x;
  return Emit(Op::kCast, {x}, {{"dtype", dtype}});
}

Value Builder::Reshape(Value x, std::vector<Expr> shape) {
  if (status_.ok() && x && x.shape() == shape) return x;
  return Emit(Op::kReshape, {x}, {{"shape", std::move(shape)}});
}

int64_t Builder::Dim(Value x, int64_t dim) {
  if (!status_.ok()) return 0;
  if (!x) {
    Fail(absl::InvalidArgumentError("an operand is no value"));
    return 0;
  }
  int64_t rank = x.type().rank();
  if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
  Fail(absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " is out of range for ", x.type().ToString())));
  return 0;
}

Value Builder::Permute(Value x, std::vector<int64_t> dims) {
  bool identity = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = Dim(x, dims[i]);
    identity = identity && dims[i] == static_cast<int64_t>(i);
  }
  if (!status_.ok() || !x) return Emit(Op::kPermute, {x}, {{"dims", std::move(dims)}});
  if (identity && static_cast<int>(dims.size()) == x.type().rank()) return x;
  return Emit(Op::kPermute, {x}, {{"dims", std::move(dims)}});
}

Value Builder::Transpose(Value x, int64_t a, int64_t b) {
  a = Dim(x, a);
  b = Dim(x, b);
  if (!status_.ok()) return {};
  std::vector<int64_t> dims(x.type().rank());
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[a], dims[b]);
  return Permute(x, std::move(dims));
}

Value Builder::Unsqueeze(Value x, int64_t dim) {
  if (!status_.ok() || !x) return Reshape(x, {});
  int64_t rank = x.type().rank();
  if (dim < -rank - 1 || dim > rank) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("dimension ", dim, " is out of range for a new one in ", x.type().ToString())));
    return {};
  }
  std::vector<Expr> shape = x.shape();
  shape.insert(shape.begin() + (dim < 0 ? dim + rank + 1 : dim), Expr(1));
  return Reshape(x, std::move(shape));
}

Value Builder::Squeeze(Value x, int64_t dim) {
  dim = Dim(x, dim);
  if (!status_.ok()) return {};
  std::vector<Expr> shape = x.shape();
  if (shape[dim] != Expr(1)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " of ", x.type().ToString(), " is not 1")));
    return {};
  }
  shape.erase(shape.begin() + dim);
  return Reshape(x, std::move(shape));
}

Value Builder::BroadcastTo(Value x, const std::vector<Expr>& shape) {
  if (!status_.ok() || !x) return Emit(Op::kBroadcast, {x}, {{"shape", shape}});
  if (x.shape() == shape) return x;
  if (x.shape().size() < shape.size()) {
    std::vector<Expr> wide(shape.size() - x.shape().size(), Expr(1));
    wide.insert(wide.end(), x.shape().begin(), x.shape().end());
    x = Reshape(x, std::move(wide));
  }
  if (x && x.shape() == shape) return x;
  return Emit(Op::kBroadcast, {x}, {{"shape", shape}});
}

Value Builder::SliceDim(Value x, int64_t dim, Expr start, Expr size, int64_t step) {
  dim = Dim(x, dim);
  if (!status_.ok()) return {};
  if (start == Expr(0) && size == x.shape()[dim] && step == 1) return x;
  std::vector<Expr> starts(x.type().rank(), Expr(0));
  std::vector<Expr> sizes = x.shape();
  std::vector<int64_t> steps(x.type().rank(), 1);
  starts[dim] = std::move(start);
  sizes[dim] = std::move(size);
  steps[dim] = step;
  return Emit(Op::kSlice, {x},
              {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
}

Value Builder::Concat(absl::Span<const Value> parts, int64_t dim) {
  if (!parts.empty()) dim = Dim(parts[0], dim);
  if (parts.size() == 1) return parts[0];
  return Emit(Op::kConcat, parts, {{"dim", dim}});
}

Value Builder::Reduce(Op op, Value x, std::vector<int64_t> dims, bool keepdim) {
  if (!status_.ok() || !x) return Emit(op, {x}, {{"dims", std::move(dims)}});
  if (dims.empty()) {
    dims.resize(x.type().rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (int64_t& dim : dims) dim = Dim(x, dim);
  std::sort(dims.begin(), dims.end());
  Value reduced = Emit(op, {x}, {{"dims", dims}});
  if (!keepdim) return reduced;
  std::vector<Expr> shape = x.shape();
  for (int64_t dim : dims) {
    if (dim < static_cast<int64_t>(shape.size())) shape[dim] = 1;
  }
  return Reshape(reduced, std::move(shape));
}

Value Builder::Mean(Value x, std::vector<int64_t> dims, bool keepdim) {
  Value sum = Reduce(Op::kReduceSum, x, dims, keepdim);
  if (!status_.ok()) return {};
  Expr count = dims.empty() ? x.type().NumElements() : Expr(1);
  for (int64_t dim : dims) count = count * x.shape()[Dim(x, dim)];
  if (auto constant = count.constant()) return Binary(Op::kDiv, sum, Scalar(static_cast<double>(*constant)));
  return Div(sum, BroadcastTo(Cast(Size(count), x.dtype()), sum.shape()));
}

}  // namespace preheat::ir
