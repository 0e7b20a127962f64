#include "server/worker/compare_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace preheat::worker {
namespace {

using ir::DType;
using reference::HostTensor;
using ::testing::HasSubstr;

template <typename T>
HostTensor Tensor(DType dtype, std::vector<T> values) {
  HostTensor tensor = reference::MakeTensor(dtype, {static_cast<int64_t>(values.size())});
  std::memcpy(tensor.bytes.data(), values.data(), values.size() * sizeof(T));
  return tensor;
}
HostTensor F32(std::vector<float> values) { return Tensor(DType::kF32, std::move(values)); }
HostTensor F64(std::vector<double> values) { return Tensor(DType::kF64, std::move(values)); }

TEST(CompareOutputs, MeasuresErrorsBesideEagers) {
  v1::Evidence evidence = CompareOutputs({F32({3, 4.0004f})}, {F32({3, 4.0003f})}, {F64({3, 4})});
  EXPECT_EQ(evidence.state(), v1::Evidence::OK);
  EXPECT_NEAR(evidence.rel_error(), 0.0004 / 5, 1e-7);
  EXPECT_NEAR(evidence.eager_rel_error(), 0.0003 / 5, 1e-7);
  EXPECT_EQ(evidence.outputs(0).dtype(), v1::DTYPE_F32);
  EXPECT_EQ(evidence.outputs(0).shape(0), 2);
}

TEST(CompareOutputs, FailsBeyondTwiceEagersError) {
  v1::Evidence evidence =
      CompareOutputs({F32({1}), F32({3, 4.001f})}, {F32({1}), F32({3, 4.0003f})}, {F64({1}), F64({3, 4})});
  EXPECT_EQ(evidence.state(), v1::Evidence::FAILED);
  EXPECT_THAT(evidence.reason(), HasSubstr("output 1"));
}

TEST(CompareOutputs, TakesNanAndInfinityOnlyWhereTheyBelong) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(CompareOutputs({F32({1, nan})}, {F32({1, nan})}, {F64({1, std::nan("")})}).state(), v1::Evidence::OK);
  EXPECT_EQ(CompareOutputs({F32({1, inf})}, {F32({1, inf})}, {F64({1, 1e300})}).state(), v1::Evidence::OK);
  EXPECT_EQ(CompareOutputs({F32({1, nan})}, {F32({1, 2})}, {F64({1, 2})}).state(), v1::Evidence::FAILED);
  EXPECT_EQ(CompareOutputs({F32({1, inf})}, {F32({1, 2})}, {F64({1, 2})}).state(), v1::Evidence::FAILED);
  EXPECT_EQ(CompareOutputs({F32({1, nan})}, {F32({1, inf})}, {F64({1, 1e300})}).state(), v1::Evidence::FAILED);
}

TEST(CompareOutputs, IntegersAreEqualOrWrong) {
  auto i64 = [](int64_t v) { return Tensor<int64_t>(DType::kI64, {7, v}); };
  EXPECT_EQ(CompareOutputs({i64(3)}, {i64(3)}, {i64(4)}).state(), v1::Evidence::OK);  // a tie that float64 breaks
  EXPECT_EQ(CompareOutputs({i64(4)}, {i64(3)}, {i64(4)}).state(), v1::Evidence::OK);
  EXPECT_EQ(CompareOutputs({i64(5)}, {i64(3)}, {i64(4)}).state(), v1::Evidence::FAILED);
}

TEST(CompareOutputs, ReadsStridesAndSmallTypes) {
  HostTensor column = reference::MakeStrided(DType::kF32, {2, 2}, {1, 2});
  const float values[] = {1, 3, 2, 4};
  std::memcpy(column.bytes.data(), values, sizeof(values));
  HostTensor row = reference::MakeTensor(DType::kF64, {2, 2});
  const double want[] = {1, 2, 3, 4};
  std::memcpy(row.bytes.data(), want, sizeof(want));
  EXPECT_EQ(CompareOutputs({column}, {column}, {row}).rel_error(), 0);
  HostTensor half = Tensor<uint16_t>(DType::kF16, {0x3c00, 0xc000, 0x0001});
  EXPECT_EQ(CompareOutputs({half}, {half}, {F64({1, -2, std::ldexp(1, -24)})}).rel_error(), 0);
  HostTensor brain = Tensor<uint16_t>(DType::kBF16, {0x3f80, 0xc000});
  EXPECT_EQ(CompareOutputs({brain}, {brain}, {F64({1, -2})}).rel_error(), 0);
}

TEST(CompareOutputs, NoticesAnotherShapeOrNumber) {
  EXPECT_EQ(CompareOutputs({F32({1})}, {F32({1, 2})}, {F64({1, 2})}).state(), v1::Evidence::FAILED);
  EXPECT_EQ(CompareOutputs({}, {F32({1})}, {F64({1})}).state(), v1::Evidence::FAILED);
}

}  // namespace
}  // namespace preheat::worker
