#include "client/cpp/dlpack.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace preheat {
namespace {

DLTensor Make(std::vector<int64_t>& shape, float* data) {
  return {.data = data,
          .device = {kDLCPU, 0},
          .ndim = static_cast<int>(shape.size()),
          .dtype = {kDLFloat, 32, 1},
          .shape = shape.data(),
          .strides = nullptr,
          .byte_offset = 0};
}

TEST(Dlpack, DenseTensorsGetTheirStrides) {
  std::vector<int64_t> shape = {2, 3, 4};
  float data[24];
  auto tensors = RuntimeTensors::From({{Make(shape, data), Make(shape, data)}});
  ASSERT_TRUE(tensors.ok());
  const RuntimeTensors moved = *std::move(tensors);
  for (const preheat_tensor& t : moved.tensors()) {
    EXPECT_EQ(std::vector<int64_t>(t.strides, t.strides + 3), (std::vector<int64_t>{12, 4, 1}));
    EXPECT_EQ(t.dtype, 8);
    EXPECT_EQ(t.data, data);
  }
}

TEST(Dlpack, ByteOffsetIsInTheAddress) {
  std::vector<int64_t> shape = {2};
  float data[4];
  DLTensor tensor = Make(shape, data);
  tensor.byte_offset = 8;
  EXPECT_EQ(RuntimeTensors::From({tensor})->tensors()[0].data, data + 2);
}

TEST(Dlpack, WhatHasNoNumberIsNamed) {
  std::vector<int64_t> shape = {2};
  float data[2];
  DLTensor fine = Make(shape, data), odd = fine, away = fine;
  odd.dtype.lanes = 4;
  away.device.device_type = kDLMetal;
  EXPECT_EQ(GetError(RuntimeTensors::From({{fine, odd}}).status()).kind, "unsupported_dtype");
  EXPECT_EQ(GetError(RuntimeTensors::From({{fine, odd}}).status()).where, "tensor 1");
  EXPECT_EQ(GetError(RuntimeTensors::From({away}).status()).kind, "unsupported_device");
}

}  // namespace
}  // namespace preheat
