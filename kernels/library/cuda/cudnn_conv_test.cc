#include "kernels/library/cuda/cudnn_conv.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/library/cuda/cudnn_api.h"
#include "kernels/library/cuda/test_devices.h"

namespace preheat::library {
namespace {

TensorSpec Tensor(DType dtype, const std::vector<int64_t>& sizes, bool channels_last) {
  TensorSpec t{static_cast<int32_t>(dtype), sizes, std::vector<int64_t>(sizes.size())};
  int64_t next = 1;
  if (channels_last) t.strides[1] = 1, next = sizes[1];
  for (size_t d = sizes.size(); d-- > 0;) {
    if (d == 1 && channels_last) continue;
    t.strides[d] = next, next *= sizes[d];
  }
  return t;
}

CallSpec Conv(const std::vector<int64_t>& x, const std::vector<int64_t>& w, const std::vector<int64_t>& y,
              int64_t stride, int64_t padding, bool channels_last = true, DType dtype = DType::kBF16) {
  CallSpec call;
  call.op = PREHEAT_LIB_CONV;
  call.operands[0] = Tensor(dtype, x, channels_last);
  call.operands[1] = Tensor(dtype, w, channels_last);
  call.result = Tensor(dtype, y, channels_last);
  call.stride.assign(x.size() - 2, stride);
  call.padding.assign(x.size() - 2, padding);
  call.dilation.assign(x.size() - 2, 1);
  call.groups = x[1] / w[1];
  return call;
}

void AddEpilogue(CallSpec& call) {
  call.epilogue.push_back({PREHEAT_LIB_BIAS, {call.result.dtype, {call.result.sizes[1]}, {1}}});
  call.epilogue.push_back({PREHEAT_LIB_RESIDUAL, call.result});
  call.epilogue.push_back({PREHEAT_LIB_RELU, {}});
}

// cuDNN plans for a device that is not here: its own word on what it would run.
class CudnnChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn::OpenApi().ok()) GTEST_SKIP() << cudnn::OpenApi().status().message();
  }
  static void ExpectReady(const CallSpec& call) {
    ASSERT_TRUE(CheckCall(call).ok()) << CheckCall(call);
    absl::StatusOr<cudnn::Choice> choice = ChooseCudnn(call, kHopper);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_FALSE(choice->compiled);
    EXPECT_LE(choice->workspace, int64_t{256} << 20);
    RecordProperty("engine", static_cast<int>(choice->engine));
  }
};

TEST_F(CudnnChoiceTest, ConvolutionsOfResnet) {
  ExpectReady(Conv({32, 3, 224, 224}, {64, 3, 7, 7}, {32, 64, 112, 112}, 2, 3));
  ExpectReady(Conv({32, 64, 56, 56}, {64, 64, 3, 3}, {32, 64, 56, 56}, 1, 1));
  ExpectReady(Conv({32, 256, 56, 56}, {512, 256, 1, 1}, {32, 512, 28, 28}, 2, 0));
  ExpectReady(Conv({1, 512, 7, 7}, {512, 512, 3, 3}, {1, 512, 7, 7}, 1, 1));
}

TEST_F(CudnnChoiceTest, WithEpilogues) {
  CallSpec call = Conv({32, 64, 56, 56}, {64, 64, 3, 3}, {32, 64, 56, 56}, 1, 1);
  AddEpilogue(call);
  ExpectReady(call);
  call.epilogue.erase(call.epilogue.begin() + 1);  // no residual
  ExpectReady(call);
  call.epilogue.pop_back();  // the bias alone
  ExpectReady(call);
}

TEST_F(CudnnChoiceTest, OneFilterAChannelAndOtherRanks) {
  ExpectReady(Conv({32, 96, 56, 56}, {96, 1, 7, 7}, {32, 96, 56, 56}, 1, 3));
  ExpectReady(Conv({4, 16, 100}, {32, 16, 5}, {4, 32, 100}, 1, 2));
  ExpectReady(Conv({2, 16, 8, 8, 8}, {32, 16, 3, 3, 3}, {2, 32, 8, 8, 8}, 1, 1));
  ExpectReady(Conv({2, 3, 9, 9}, {5, 3, 3, 3}, {2, 5, 9, 9}, 1, 1));  // odd channels
}

TEST_F(CudnnChoiceTest, ChannelsFirstAndWiderTypes) {
  ExpectReady(Conv({8, 64, 28, 28}, {64, 64, 3, 3}, {8, 64, 28, 28}, 1, 1, false));
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kF64}) {
    ExpectReady(Conv({8, 64, 28, 28}, {64, 64, 3, 3}, {8, 64, 28, 28}, 1, 1, false, dtype));
  }
  ExpectReady(Conv({8, 64, 28, 28}, {64, 64, 3, 3}, {8, 64, 28, 28}, 1, 1, true, DType::kF32));
  AllowTf32InConvolutions(false);
  ExpectReady(Conv({8, 64, 28, 28}, {64, 64, 3, 3}, {8, 64, 28, 28}, 1, 1, true, DType::kF32));
  AllowTf32InConvolutions(true);
}

TEST_F(CudnnChoiceTest, Gradients) {
  for (const bool channels_last : {true, false}) {
    CallSpec call = Conv({8, 64, 28, 28}, {96, 64, 3, 3}, {8, 96, 28, 28}, 1, 1, channels_last);
    CallSpec to_input = call, to_weight = call;
    to_input.op = PREHEAT_LIB_CONV_GRAD_INPUT;
    std::swap(to_input.operands[0], to_input.result);
    ExpectReady(to_input);
    to_weight.op = PREHEAT_LIB_CONV_GRAD_WEIGHT;
    to_weight.operands[0] = call.result, to_weight.operands[1] = call.operands[0], to_weight.result = call.operands[1];
    ExpectReady(to_weight);
  }
}

TEST(CudnnConv, RefusesOtherEpilogues) {
  CallSpec call = Conv({2, 3, 9, 9}, {5, 3, 3, 3}, {2, 5, 9, 9}, 1, 1);
  call.epilogue.push_back({PREHEAT_LIB_GELU, {}});
  EXPECT_EQ(ChooseCudnn(call, kHopper).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace preheat::library
