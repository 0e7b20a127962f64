#include "compiler/capture/promote.h"

#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

using ir::DType;
using ir::TensorType;

TEST(Promote, FollowsTorchsTable) {
  EXPECT_EQ(PromoteTypes(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(PromoteTypes(DType::kU8, DType::kI32), DType::kI32);
  EXPECT_EQ(PromoteTypes(DType::kBool, DType::kU8), DType::kU8);
  EXPECT_EQ(PromoteTypes(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(PromoteTypes(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(PromoteTypes(DType::kBF16, DType::kF64), DType::kF64);
  EXPECT_EQ(PromoteTypes(DType::kC64, DType::kF64), DType::kC128);
}

DType ResultOf(std::vector<TensorType> tensors, std::vector<Argument> numbers) {
  Promotion promotion;
  for (const TensorType& type : tensors) promotion.AddTensor(type);
  for (const Argument& number : numbers) promotion.AddNumber(number);
  return promotion.Result();
}

TEST(Promote, TensorsWithDimensionsDecideWithinAKind) {
  TensorType bf16{DType::kBF16, {4}}, f64_scalar{DType::kF64, {}}, i32{DType::kI32, {4}}, i8{DType::kI8, {4}};
  EXPECT_EQ(ResultOf({bf16, f64_scalar}, {}), DType::kBF16);
  EXPECT_EQ(ResultOf({i32, f64_scalar}, {}), DType::kF64);
  EXPECT_EQ(ResultOf({i8, i32}, {}), DType::kI32);
  EXPECT_EQ(ResultOf({i8}, {Argument(ir::Expr(1000))}), DType::kI8);
  EXPECT_EQ(ResultOf({i32}, {Argument(0.5)}), DType::kF32);
  EXPECT_EQ(ResultOf({bf16}, {Argument(0.5)}), DType::kBF16);
  EXPECT_EQ(ResultOf({f64_scalar}, {Argument(0.5)}), DType::kF64);
}

}  // namespace
}  // namespace preheat::capture
