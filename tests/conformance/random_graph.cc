#include "tests/conformance/random_graph.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"

namespace preheat::testing {

using ir::DType;
using ir::Expr;
using ir::Op;
using ir::Value;

namespace {

class Maker {
 public:
  Maker(uint64_t seed, bool symbolic) : random_(seed), symbolic_(symbolic), builder_(&graph_) {}

  ir::Graph Run(int size) {
    if (symbolic_) graph_.AddSymbol({"d0", 1, 64});
    for (int i = 0; i < 3; ++i) AddInput();
    for (int i = 0; i < size; ++i) {
      Value value = Next();
      if (value && builder_.status().ok()) values_.push_back(value);
    }
    for (int i = 0; i < 1 + Roll(3); ++i) {
      Value value = values_[values_.size() - 1 - Roll(static_cast<int>(std::min<size_t>(values_.size(), 5)))];
      graph_.AddOutput({value, ir::RowMajorStrides(value.shape())});
    }
    return std::move(graph_);
  }

 private:
  int Roll(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  void AddInput() {
    ir::GraphInput input;
    constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF32, DType::kI64, DType::kBF16, DType::kBool};
    input.type.dtype = kTypes[Roll(6)];
    if (values_.empty()) input.type.dtype = DType::kF32;
    int rank = Roll(8) == 0 ? 0 : 1 + Roll(3);
    constexpr int kSizes[] = {1, 2, 3, 5, 8, 16, 33, 64};
    for (int d = 0; d < rank; ++d) input.type.shape.push_back(Expr(Roll(40) == 0 ? 0 : kSizes[Roll(8)]));
    if (symbolic_ && rank > 0) input.type.shape[Roll(rank)] = Expr::Symbol("d0");
    if (symbolic_ && values_.empty()) input.type.shape = {Expr::Symbol("d0"), 16};
    input.strides = ir::RowMajorStrides(input.type.shape);
    rank = input.type.rank();
    if (rank > 1 && Roll(3) == 0) {  // a caller's layout of its own: the last two dimensions swapped
      input.strides[rank - 2] = 1;
      input.strides[rank - 1] = input.type.shape[rank - 2];
    }
    values_.push_back(graph_.AddInput(std::move(input)));
  }

  Value Pick() { return values_[values_.size() - 1 - Roll(static_cast<int>(std::min<size_t>(values_.size(), 6)))]; }
  Value PickFloat() {
    for (int i = 0; i < 8; ++i) {
      Value v = Pick();
      if (v.dtype() == DType::kF32) return v;
    }
    return values_[0];
  }

  Value Next() {
    switch (Roll(13)) {
      case 0:
      case 1: return Unary();
      case 2:
      case 3:
      case 4: return Binary();
      case 5: return Reduce();
      case 6: return Normalize();
      case 7: return View();
      case 8: return Slice();
      case 9: return Join();
      case 10: return builder_.Cast(Pick(), Roll(2) ? DType::kF32 : Roll(2) ? DType::kBF16 : DType::kI64);
      case 11: return Take();
      default: return Product();
    }
  }

  Value Unary() {
    constexpr Op kOps[] = {Op::kNeg, Op::kAbs, Op::kExp, Op::kTanh, Op::kErf, Op::kSin, Op::kAtan, Op::kCos};
    return builder_.Unary(kOps[Roll(8)], PickFloat());
  }

  bool Broadcasts(Value a, Value b) const {
    size_t n = std::min(a.shape().size(), b.shape().size());
    for (size_t i = 1; i <= n; ++i) {
      Expr x = a.shape()[a.shape().size() - i], y = b.shape()[b.shape().size() - i];
      if (x != y && x != Expr(1) && y != Expr(1)) return false;
    }
    return true;
  }

  Value Binary() {
    Value a = Pick(), b = Pick();
    if (a.dtype() != b.dtype() || !Broadcasts(a, b)) return builder_.Binary(Op::kAdd, PickFloat(), ir::Scalar(0.5));
    constexpr Op kOps[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin, Op::kLt};
    Value result = builder_.Binary(kOps[Roll(6)], a, b);
    if (result && result.dtype() == DType::kBool && a.dtype() == DType::kF32) {
      return builder_.Where(result, builder_.BroadcastTo(a, result.shape()), builder_.BroadcastTo(b, result.shape()));
    }
    return result;
  }

  Value Reduce() {
    Value x = PickFloat();
    if (x.shape().empty()) return {};
    int dim = Roll(static_cast<int>(x.shape().size()));
    if (x.shape()[dim] == Expr(0)) return {};
    constexpr Op kOps[] = {Op::kReduceSum, Op::kReduceMax, Op::kReduceMin, Op::kReduceSum};
    std::vector<int64_t> dims = {dim};
    if (dim > 0 && Roll(3) == 0 && x.shape()[0] != Expr(0)) dims = {0, dim};
    return builder_.Reduce(kOps[Roll(4)], x, dims, Roll(2) == 0);
  }

  // Softmax or a layer normalization over the last dimension.
  Value Normalize() {
    Value x = PickFloat();
    if (x.shape().empty() || x.shape().back() == Expr(0)) return {};
    if (Roll(2)) {
      Value m = builder_.Reduce(Op::kReduceMax, x, {-1}, true);
      Value e = builder_.Unary(Op::kExp, builder_.Sub(x, m));
      return builder_.Div(e, builder_.Reduce(Op::kReduceSum, e, {-1}, true));
    }
    Value centred = builder_.Sub(x, builder_.Mean(x, {-1}, true));
    Value variance = builder_.Mean(builder_.Mul(centred, centred), {-1}, true);
    return builder_.Mul(centred, builder_.Unary(Op::kRsqrt, builder_.Add(variance, 0.1)));
  }

  Value View() {
    Value x = Pick();
    int rank = x.type().rank();
    switch (Roll(4)) {
      case 0: return rank < 2 ? Value{} : builder_.Transpose(x, -1, -2);
      case 1: return rank < 2 ? Value{} : builder_.Reshape(x, {x.type().NumElements()});
      case 2: return builder_.Unsqueeze(x, rank);
      default: {
        if (rank < 1 || !x.shape()[0].is_constant() || *x.shape()[0].constant() % 2 != 0) return {};
        std::vector<Expr> shape = {2, Expr::FloorDiv(x.shape()[0], 2)};
        shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
        return rank < 4 ? builder_.Reshape(x, shape) : Value{};
      }
    }
  }

  Value Slice() {
    Value x = Pick();
    if (x.shape().empty()) return {};
    int dim = Roll(x.type().rank());
    auto size = x.shape()[dim].constant();
    if (!size || *size < 2) return {};
    if (Roll(3) == 0) return builder_.Emit(Op::kFlip, {x}, {{"dims", std::vector<int64_t>{dim}}});
    return builder_.SliceDim(x, dim, Roll(2), *size / 2, Roll(2) && *size >= 4 ? 1 : 1);
  }

  Value Join() {
    Value x = PickFloat();
    if (x.shape().empty()) return {};
    if (Roll(2)) return builder_.Concat({x, builder_.Unary(Op::kNeg, x)}, Roll(x.type().rank()));
    std::vector<Expr> low(x.shape().size(), Expr(0)), high = low;
    low[Roll(x.type().rank())] = 1 + Roll(2);
    high[Roll(x.type().rank())] = Roll(3);
    return builder_.Emit(Op::kPad, {x}, {{"low", low}, {"high", high}, {"value", 0.25}});
  }

  Value Take() {
    Value x = PickFloat();
    if (x.shape().empty()) return {};
    int dim = Roll(x.type().rank());
    auto size = x.shape()[dim].constant();
    if (!size || *size < 1) return {};
    Value at = builder_.Iota(DType::kI64, {7}, 0);
    at = builder_.Binary(Op::kMod, at, ir::Scalar(*size));
    if (Roll(2)) at = builder_.Binary(Op::kSub, at, ir::Scalar(*size));  // negative indices
    return builder_.Emit(Op::kTake, {x, at}, {{"dim", int64_t{dim}}});
  }

  Value Product() {
    Value x = PickFloat();
    if (x.shape().size() != 2) return {};
    return builder_.Unary(Op::kTanh, builder_.MatMul(x, builder_.Transpose(x, 0, 1)));
  }

  std::mt19937_64 random_;
  bool symbolic_;
  ir::Graph graph_;
  ir::Builder builder_;
  std::vector<Value> values_;
};

}  // namespace

ir::Graph RandomGraph(uint64_t seed, int size, bool symbolic) { return Maker(seed, symbolic).Run(size); }

}  // namespace preheat::testing
