#include "compiler/ir/builder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::ir {
namespace {

using ::testing::HasSubstr;

class BuilderTest : public ::testing::Test {
 protected:
  Value Input(DType dtype, std::vector<Expr> shape) {
    std::vector<Expr> strides = RowMajorStrides(shape);
    return graph_.AddInput({InputKind::kUser, {dtype, std::move(shape)}, std::move(strides)});
  }
  // The types of what was just built, "" after a failure.
  std::string Type(Value v) { return v ? v.type().ToString() : ""; }
  void ExpectFailure(absl::string_view what) {
    EXPECT_THAT(std::string(b_.status().message()), HasSubstr(std::string(what)));
  }

  Graph graph_;
  Builder b_{&graph_};
  Expr d0_ = Expr::Symbol("d0");
};

TEST_F(BuilderTest, BroadcastsAsNumpy) {
  Value x = Input(DType::kF32, {d0_, 3, 1});
  Value y = Input(DType::kF32, {3, 5});
  EXPECT_EQ(Type(b_.Add(x, y)), "f32[d0, 3, 5]");
  EXPECT_EQ(Type(b_.Mul(x, 2.0)), "f32[d0, 3, 1]");
  EXPECT_EQ(Type(b_.Binary(Op::kLt, x, x)), "bool[d0, 3, 1]");
  EXPECT_TRUE(b_.status().ok());
}

TEST_F(BuilderTest, FailureSticks) {
  Value x = Input(DType::kF32, {d0_, 3});
  Value y = Input(DType::kF32, {Expr::Symbol("d1"), 3});
  EXPECT_FALSE(b_.Add(x, y));
  ExpectFailure("sizes d0 and d1 do not broadcast");
  EXPECT_FALSE(b_.Add(x, x)) << "later calls do nothing";
  EXPECT_FALSE(b_.Reduce(Op::kReduceSum, Value{}, {0}, true));
  EXPECT_FALSE(b_.Transpose(Value{}, 0, 1));
  EXPECT_FALSE(b_.Where(Value{}, x, x));
  ExpectFailure("sizes d0 and d1 do not broadcast");
}

TEST_F(BuilderTest, ShapesOfViews) {
  Value x = Input(DType::kF32, {d0_, 4, 6});
  EXPECT_EQ(Type(b_.Transpose(x, -1, 0)), "f32[6, 4, d0]");
  EXPECT_EQ(Type(b_.Reshape(x, {d0_ * 4, 6})), "f32[4*d0, 6]");
  EXPECT_EQ(Type(b_.Unsqueeze(x, -1)), "f32[d0, 4, 6, 1]");
  EXPECT_EQ(Type(b_.Squeeze(b_.Unsqueeze(x, 1), 1)), "f32[d0, 4, 6]");
  EXPECT_EQ(Type(b_.SliceDim(x, 1, 1, 2, 2)), "f32[d0, 2, 6]");
  EXPECT_EQ(Type(b_.Concat({x, x}, 0)), "f32[2*d0, 4, 6]");
  EXPECT_EQ(Type(b_.Emit(Op::kWindow, {x},
                         {{"dim", int64_t{2}}, {"size", int64_t{3}}, {"step", int64_t{2}}, {"dilation", int64_t{1}}})),
            "f32[d0, 4, 2, 3]");
  EXPECT_EQ(b_.Permute(x, {0, 1, 2}), x) << "an identity is no node";
  EXPECT_TRUE(b_.status().ok()) << b_.status();
}

TEST_F(BuilderTest, ReductionsAndMean) {
  Value x = Input(DType::kF32, {d0_, 4, 6});
  EXPECT_EQ(Type(b_.Reduce(Op::kReduceSum, x, {-1}, true)), "f32[d0, 4, 1]");
  EXPECT_EQ(Type(b_.Reduce(Op::kReduceMax, x, {2, 0}, false)), "f32[4]");
  EXPECT_EQ(Type(b_.Mean(x, {}, false)), "f32[]");
  EXPECT_EQ(Type(b_.Emit(Op::kArgMax, {x}, {{"dim", int64_t{1}}})), "i64[d0, 6]");
  EXPECT_TRUE(b_.status().ok()) << b_.status();
}

TEST_F(BuilderTest, LibraryCalls) {
  Value x = Input(DType::kF32, {d0_, 8, 16});
  Value w = Input(DType::kF32, {d0_, 16, 4});
  EXPECT_EQ(Type(b_.MatMul(x, w)), "f32[d0, 8, 4]");
  Value image = Input(DType::kF32, {d0_, 3, 224, 224});
  Value filter = Input(DType::kF32, {64, 3, 7, 7});
  Attrs conv = {{"stride", std::vector<int64_t>{2, 2}},
                {"padding", std::vector<int64_t>{3, 3}},
                {"dilation", std::vector<int64_t>{1, 1}},
                {"output_padding", std::vector<int64_t>{0, 0}},
                {"groups", int64_t{1}},
                {"transposed", int64_t{0}}};
  Value y = b_.Emit(Op::kConv, {image, filter}, conv);
  EXPECT_EQ(Type(y), "f32[d0, 64, 112, 112]");
  EXPECT_EQ(Type(b_.Emit(Op::kConvGradInput, {y, filter}, conv, {image.type()})), "f32[d0, 3, 224, 224]");
  EXPECT_EQ(Type(b_.Emit(Op::kConvGradWeight, {y, image}, conv, {filter.type()})), "f32[64, 3, 7, 7]");
  EXPECT_TRUE(b_.status().ok()) << b_.status();
  b_.Emit(Op::kConvGradWeight, {y, image}, conv, {image.type()});
  ExpectFailure("conv_grad_weight");
}

TEST_F(BuilderTest, ScalarsTakeTheDtype) {
  EXPECT_EQ(b_.Fill(int64_t{3}, DType::kF32).node->ScalarAttr("value"), Scalar(3.0));
  EXPECT_EQ(b_.Fill(0.1, DType::kF32).node->ScalarAttr("value"), Scalar(static_cast<double>(0.1f)));
  EXPECT_EQ(b_.Fill(int64_t{300}, DType::kU8).node->ScalarAttr("value"), Scalar(int64_t{44}));
  EXPECT_EQ(b_.Fill(2.0, DType::kI32).node->ScalarAttr("value"), Scalar(int64_t{2}));
  EXPECT_TRUE(b_.status().ok());
  b_.Fill(0.5, DType::kI32);
  ExpectFailure("0.5 is no value of dtype i32");
}

struct Rejection {
  const char* name;
  std::function<void(Builder&, Value f32_4x6, Value i64_4x6)> build;
  const char* message;
};
class RejectionTest : public ::testing::TestWithParam<Rejection> {};

TEST_P(RejectionTest, NamesTheCause) {
  Graph graph;
  Value x = graph.AddInput({InputKind::kUser, {DType::kF32, {4, 6}}, {6, 1}});
  Value i = graph.AddInput({InputKind::kUser, {DType::kI64, {4, 6}}, {6, 1}});
  Builder b(&graph);
  GetParam().build(b, x, i);
  ASSERT_FALSE(b.status().ok());
  EXPECT_EQ(b.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(b.status().message()), HasSubstr(GetParam().message));
}

const std::vector<int64_t> kTwice = {0, 0};
const Rejection kRejections[] = {
    {"dtypes", [](Builder& b, Value x, Value i) { b.Add(x, i); }, "operands differ: f32[4, 6] and i64[4, 6]"},
    {"domain", [](Builder& b, Value, Value i) { b.Unary(Op::kExp, i); }, "exp: takes floats, not i64[4, 6]"},
    {"arity", [](Builder& b, Value x, Value) { b.Emit(Op::kAdd, {x}); }, "add: takes 2 operands, not 1"},
    {"dim", [](Builder& b, Value x, Value) { b.Reduce(Op::kReduceSum, x, {2}, false); }, "dimension 2 is out of range"},
    {"dim_twice",
     [](Builder& b, Value x, Value) {
       b.Emit(Op::kReduceSum, {x}, {{"dims", kTwice}});
     },
     "0 twice"},
    {"reshape",
     [](Builder& b, Value x, Value) {
       b.Reshape(x, {5, 5});
     },
     "changes the number of elements"},
    {"broadcast",
     [](Builder& b, Value x, Value) {
       b.BroadcastTo(x, {4, 7});
     },
     "f32[4, 6] does not grow to f32[4, 7]"},
    {"slice", [](Builder& b, Value x, Value) { b.SliceDim(x, 0, 2, 3); }, "dimension 0 of f32[4, 6]"},
    {"missing", [](Builder& b, Value x, Value) { b.Emit(Op::kPermute, {x}); }, "permute: lacks the attribute dims"},
    {"kind",
     [](Builder& b, Value x, Value) {
       b.Emit(Op::kArgMax, {x}, {{"dim", 1.0}});
     },
     "dim is of another kind"},
    {"unknown",
     [](Builder& b, Value x, Value) {
       b.Emit(Op::kNeg, {x}, {{"y", 1.0}});
     },
     "neg: has no attribute y"},
    {"matmul", [](Builder& b, Value x, Value) { b.MatMul(x, x); }, "do not multiply"},
    {"empty_max", [](Builder& b, Value x, Value) { b.Reduce(Op::kReduceMax, b.SliceDim(x, 0, 0, 0), {0}, false); },
     "dimension 0 of f32[0, 6] is empty"},
    {"huge",
     [](Builder& b, Value, Value) {
       b.Fill(0.0, DType::kF32, {int64_t{1} << 30, int64_t{1} << 30});
     },
     "too large"},
    {"scatter",
     [](Builder& b, Value x, Value i) {
       b.Emit(Op::kScatter, {x, i, x}, {{"dim", int64_t{0}}, {"reduce", std::string("mean")}});
     },
     "reduce is set"},
    {"input", [](Builder& b, Value, Value) { b.Emit(Op::kInput, {}); }, "added by AddInput"},
};
INSTANTIATE_TEST_SUITE_P(All, RejectionTest, ::testing::ValuesIn(kRejections),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace preheat::ir
