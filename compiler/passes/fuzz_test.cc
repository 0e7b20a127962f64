// Random graphs by seed: the pipeline keeps their results. A failure prints the seed and both graphs.

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/builder.h"
#include "compiler/passes/testing.h"
#include "gtest/gtest.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::Expr;
using ir::Op;
using ir::Value;

// Makes graphs out of steps that each pick operands among the values so far.
class RandomGraph {
 public:
  // `smooth`: only float operators whose results change little when their operands do.
  RandomGraph(unsigned seed, bool smooth) : rng_(seed), smooth_(smooth), b_(&graph_) {
    graph_.AddSymbol({"n", 1, std::nullopt});
    Input(DType::kF32, {n_, 4});
    Input(DType::kF32, {n_, 4});
    Input(DType::kF32, {4, 4});
    Input(DType::kF32, {4});
    if (!smooth) {
      Input(DType::kI32, {n_, 4});
      Input(DType::kBool, {n_, 4});
      Input(DType::kBF16, {n_, 4});
    }
  }

  ir::Graph Make(int steps) {
    for (int i = 0; i < steps; ++i) Step();
    EXPECT_TRUE(b_.status().ok()) << b_.status();
    for (int i = 0, n = 1 + Pick(3); i < n; ++i) {
      Value v = values_[values_.size() - 1 - Pick(std::min<int>(6, values_.size()))];
      graph_.AddOutput({v, ir::RowMajorStrides(v.shape())});
    }
    return std::move(graph_);
  }

 private:
  int Pick(int count) { return static_cast<int>(rng_() % count); }
  template <typename T>
  T Choose(std::initializer_list<T> options) {
    return options.begin()[Pick(static_cast<int>(options.size()))];
  }

  void Input(DType dtype, std::vector<Expr> shape) {
    std::vector<Expr> strides = ir::RowMajorStrides(shape);
    ir::GraphInput input;
    input.type = {dtype, std::move(shape)};
    input.strides = std::move(strides);
    input.frozen = Pick(2) != 0;
    values_.push_back(graph_.AddInput(std::move(input)));
  }

  Value Any() { return values_[Pick(static_cast<int>(values_.size()))]; }
  // One that `fits`; null when a few tries find none.
  template <typename F>
  Value Some(F fits) {
    for (int i = 0; i < 12; ++i) {
      Value v = Any();
      if (fits(v)) return v;
    }
    return {};
  }
  Value SomeFloat() {
    return Some([](Value v) { return ir::IsFloat(v.dtype()); });
  }
  Value SomeLike(Value other) {
    return Some([&](Value v) { return v.type() == other.type(); });
  }
  void Keep(Value v) {
    if (v && v.type().NumElements().terms().size() < 4) values_.push_back(v);
  }

  Value FillLike(Value v) {
    double value = Choose({0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0});
    if (!ir::IsFloat(v.dtype())) value = Choose({0.0, 1.0});
    return b_.Fill(value, v.dtype(), v.shape());
  }

  void Step() {
    switch (Pick(11)) {
      case 0: return Unary();
      case 1:
      case 2: return Binary();
      case 3: return View();
      case 4: return Reduce();
      case 5: return Layer();
      case 6: return Convolve();
      case 7: return Activate();
      case 8: return smooth_ ? Binary() : Cast();
      case 9: return smooth_ ? Unary() : Compare();
      default: return smooth_ ? Layer() : Ordered();
    }
  }

  void Unary() {
    Value x = SomeFloat();
    if (!x) return;
    Op op = smooth_ ? Choose({Op::kNeg, Op::kAbs, Op::kTanh, Op::kSin, Op::kErf})
                    : Choose({Op::kNeg, Op::kAbs, Op::kTanh, Op::kFloor, Op::kRound, Op::kExp, Op::kSign, Op::kSqrt});
    Keep(b_.Unary(op, x));
  }

  void Binary() {
    Value x = Any();
    Value y = Pick(3) == 0 ? FillLike(x) : SomeLike(x);
    if (!y) return;
    if (Pick(2) == 0) std::swap(x, y);
    if (x.dtype() == DType::kBool) return Keep(b_.Binary(Choose({Op::kAnd, Op::kOr, Op::kXor, Op::kAdd}), x, y));
    Op op = Choose({Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin});
    if (!smooth_ && ir::IsFloat(x.dtype()) && Pick(4) == 0) op = Choose({Op::kDiv, Op::kPow});
    Keep(b_.Binary(op, x, y));
  }

  void View() {
    Value x = Any();
    int rank = x.type().rank();
    if (rank == 0) return Keep(b_.BroadcastTo(x, {n_, 4}));
    int dim = Pick(rank);
    switch (Pick(8)) {
      case 0: return Keep(b_.Reshape(x, {x.type().NumElements()}));
      case 1: return Keep(b_.Transpose(x, dim, Pick(rank)));
      case 2: return Keep(rank < 4 ? b_.Unsqueeze(x, dim) : x);
      case 3: return Keep(x.shape().back() == Expr(4) ? b_.BroadcastTo(x, Leading(x.shape())) : x);
      case 4: return Keep(b_.SliceDim(x, dim, 0, x.shape()[dim]));
      case 5: return Keep(b_.Emit(Op::kFlip, {x}, {{"dims", std::vector<int64_t>{dim}}}));
      case 6: return Keep(b_.Concat({x, x}, dim));
      default:
        if (auto size = x.shape()[dim].constant(); size && *size > 1) Keep(b_.SliceDim(x, dim, 1, *size / 2));
    }
  }
  static std::vector<Expr> Leading(std::vector<Expr> shape) {
    if (shape.size() < 3) shape.insert(shape.begin(), Expr(2));
    return shape;
  }

  void Reduce() {
    Value x = SomeFloat();
    if (!x || x.type().rank() == 0) return;
    Op op = Choose({Op::kReduceSum, Op::kReduceMax, Op::kReduceMin});
    Keep(b_.Reduce(op, x, {Pick(x.type().rank())}, Pick(2) == 0));
  }

  // A matmul with what usually follows it.
  void Layer() {
    Value x =
        Some([](Value v) { return v.dtype() == DType::kF32 && v.type().rank() >= 2 && v.shape().back() == Expr(4); });
    Value w = Some([](Value v) { return v.type() == ir::TensorType{DType::kF32, {4, 4}}; });
    if (!x || !w) return;
    Value y;
    if (x.type().rank() == 2) {
      y = b_.MatMul(x, w);
    } else {
      std::vector<Expr> batch(x.shape().begin(), x.shape().end() - 2);
      batch.insert(batch.end(), {Expr(4), Expr(4)});
      y = b_.MatMul(x, b_.BroadcastTo(w, batch));
    }
    Value bias = Some([](Value v) { return v.type() == ir::TensorType{DType::kF32, {4}}; });
    if (bias && Pick(3) != 0) y = b_.Add(y, bias);
    if (Value residual = SomeLike(y); residual && Pick(2) == 0) y = b_.Add(y, residual);
    Keep(y);
    if (Pick(2) == 0) Activation(y);
  }

  void Convolve() {
    Value image = b_.Reshape(values_[0], {n_, 2, 2});
    Value filter = b_.Reshape(values_[2], {4, 2, 2});
    Value y = b_.Emit(Op::kConv, {image, filter},
                      {{"stride", std::vector<int64_t>{1}},
                       {"padding", std::vector<int64_t>{1}},
                       {"dilation", std::vector<int64_t>{1}},
                       {"output_padding", std::vector<int64_t>{0}},
                       {"groups", int64_t{1}},
                       {"transposed", int64_t{0}}});
    Value channels = b_.Reshape(values_[3], {1, 4, 1});
    if (Pick(2) == 0) y = b_.Add(y, channels);
    if (Pick(2) == 0) y = b_.Mul(y, channels);
    if (Pick(2) == 0) y = b_.Add(y, channels);
    Keep(y);
    if (Pick(2) == 0) Activation(y);
  }

  void Activate() {
    if (Value x = Some([](Value v) { return v.dtype() == DType::kF32; })) Activation(x);
  }
  void Activation(Value x) {
    Value minus = b_.Unary(Op::kExp, b_.Unary(Op::kNeg, x));
    switch (Pick(4)) {
      case 0: return Keep(b_.Binary(Op::kMax, x, ir::Scalar(0.0)));
      case 1: return Keep(b_.Unary(Op::kReciprocal, b_.Add(minus, 1.0)));
      case 2: return Keep(b_.Div(x, b_.Add(minus, 1.0)));
      default: return Keep(b_.Mul(b_.Mul(x, 0.5), b_.Add(b_.Unary(Op::kErf, b_.Mul(x, 0.70710678118)), 1.0)));
    }
  }

  void Cast() {
    Value x = Any();
    if (ir::IsFloat(x.dtype())) return Keep(b_.Cast(x, Choose({DType::kF32, DType::kBF16, DType::kF16, DType::kF64})));
    Keep(b_.Cast(x, Choose({DType::kI64, DType::kI8, DType::kF32, DType::kBool, DType::kU8})));
  }

  void Compare() {
    Value x = Any();
    Value y = SomeLike(x);
    if (!y) return;
    Value c = b_.Binary(Choose({Op::kEq, Op::kNe, Op::kLt, Op::kGe}), x, y);
    if (Pick(2) == 0) c = b_.Unary(Op::kNot, c);
    Keep(c);
    Keep(b_.Where(c, x, y));
  }

  void Ordered() {
    Value x = SomeFloat();
    if (!x || x.type().rank() == 0) return;
    int64_t dim = Pick(x.type().rank());
    if (Pick(2) == 0) return Keep(b_.Emit(Op::kScanMax, {x}, {{"dim", dim}}));
    std::vector<Value> sorted = b_.EmitAll(Op::kSort, {x}, {{"dim", dim}, {"descending", int64_t{Pick(2)}}});
    for (const Value& v : sorted) Keep(v);
  }

  std::mt19937 rng_;
  bool smooth_;
  ir::Graph graph_;
  Builder b_;
  Expr n_ = Expr::Symbol("n");
  std::vector<Value> values_;
};

// Passes that keep every bit: any operator, NaN and infinities included.
TEST(FuzzTest, ExactPassesKeepEveryBit) {
  for (unsigned seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ir::Graph before = RandomGraph(seed, false).Make(20);
    ASSERT_TRUE(ir::Verify(before).ok()) << ir::Verify(before);
    absl::StatusOr<ir::Graph> after = RunPipeline(
        Parsed(ir::Print(before)),
        {.disabled = {"form_library_epilogues", "fold_channel_scales", "split_reductions", "split_column_sums"},
         .verify = true});
    ASSERT_TRUE(after.ok()) << after.status() << "\n" << ir::Print(before);
    ExpectSameResults(before, *after, 0, seed, true);
  }
}

// The whole pipeline on operators that do not blow rounding up.
TEST(FuzzTest, ThePipelineKeepsResults) {
  int fused = 0;
  for (unsigned seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ir::Graph before = RandomGraph(seed, true).Make(12);
    absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(ir::Print(before)), {.verify = true});
    ASSERT_TRUE(after.ok()) << after.status() << "\n" << ir::Print(before);
    for (const ir::Node& node : after->nodes()) fused += node.op() == Op::kFused;
    ExpectSameResults(before, *after, 2e-3, seed);
    absl::StatusOr<ir::Graph> again = RunPipeline(Parsed(ir::Print(*after)), {.verify = true});
    ASSERT_TRUE(again.ok()) << again.status();
  }
  EXPECT_GT(fused, 50) << "the graphs have chains to fuse";
}

}  // namespace
}  // namespace preheat::passes
