#include "kernels/library/cuda/cudnn_attention.h"

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/library/cuda/cudnn_api.h"
#include "kernels/library/cuda/plan_files.h"
#include "kernels/library/cuda/test_devices.h"

namespace preheat::library {
namespace {

// [b, h, rows, width] as torch's projections leave it: the heads of a row side by side.
TensorSpec Heads(DType dtype, int64_t b, int64_t h, int64_t rows, int64_t width) {
  return {static_cast<int32_t>(dtype), {b, h, rows, width}, {h * rows * width, width, h * width, 1}};
}

TensorSpec Turned(TensorSpec t) {
  std::swap(t.sizes[2], t.sizes[3]), std::swap(t.strides[2], t.strides[3]);
  return t;
}

struct Shape {
  int64_t rows = 512, columns = 512, width = 64;
  int64_t keys = 12;  // heads of k and v, of 12
  DType dtype = DType::kBF16;
  bool causal = true;
  int64_t masks = 0;     // of a batch: one for all heads, or one each; 0: none
  bool padding = false;  // one for all rows

  TensorSpec Queries() const { return Heads(dtype, 2, 12, rows, width); }
  TensorSpec Keys() const { return Heads(dtype, 2, keys, columns, width); }
  TensorSpec Mask() const {
    return {static_cast<int32_t>(dtype),
            {2, 12, rows, columns},
            {masks * rows * columns, masks == 1 ? 0 : rows * columns, padding ? 0 : columns, 1}};
  }
  TensorSpec Sums() const { return {static_cast<int32_t>(DType::kF32), {2, 12, rows, 1}, {12 * rows, rows, 1, 1}}; }
};

CallSpec Forward(const Shape& s, bool log_sums = true) {
  CallSpec call;
  call.op = PREHEAT_LIB_ATTENTION;
  call.operands[0] = s.Queries();
  call.operands[1] = Turned(s.Keys());
  call.result = s.Queries();
  call.scale = 0.125;
  if (s.masks != 0) call.epilogue.push_back({PREHEAT_LIB_MASK, s.Mask()});
  if (s.causal) call.epilogue.push_back({PREHEAT_LIB_CAUSAL, {}});
  call.epilogue.push_back({PREHEAT_LIB_SOFTMAX, {}});
  call.epilogue.push_back({PREHEAT_LIB_VALUES, s.Keys()});
  if (log_sums) call.more_results.push_back(s.Sums());
  return call;
}

CallSpec Backward(const Shape& s) {
  CallSpec call = Forward(s, false);
  call.op = PREHEAT_LIB_ATTENTION_GRAD;
  call.epilogue.erase(call.epilogue.end() - 2);
  call.epilogue.push_back({PREHEAT_LIB_GRADIENT, s.Queries()});
  call.epilogue.push_back({PREHEAT_LIB_OUTPUT, s.Queries()});
  call.epilogue.push_back({PREHEAT_LIB_LOG_SUMS, s.Sums()});
  call.more_results = {s.Keys(), s.Keys()};
  return call;
}

// cuDNN plans for a device that is not here: its own word on what it would run. It compiles the kernels, for which it
// wants a driver to link them: tests/emulator/linking_driver.cc where there is no other.
class CudnnAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn::OpenApi().ok()) GTEST_SKIP() << cudnn::OpenApi().status().message();
    if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) GTEST_SKIP() << "emulator/cudnn_attention brings a driver";
  }
  static void ExpectReady(const CallSpec& call) {
    ASSERT_TRUE(CheckCall(call).ok()) << CheckCall(call);
    absl::StatusOr<cudnn::Choice> choice = ChooseCudnnAttention(call, kHopper);
    ASSERT_TRUE(choice.ok()) << choice.status();
    RecordProperty("engine", static_cast<int>(choice->engine));
  }
};

TEST_F(CudnnAttentionTest, TakesWhatModelsHave) {
  for (const Shape& shape : {Shape{}, Shape{.causal = false}, Shape{.dtype = DType::kF16}, Shape{.keys = 4},
                             Shape{.width = 128, .keys = 1}, Shape{.rows = 197, .columns = 197, .causal = false},
                             Shape{.rows = 77, .columns = 300, .width = 80, .causal = false}}) {
    ExpectReady(Forward(shape));
    ExpectReady(Backward(shape));
  }
  for (const int64_t masks : {1, 12}) {
    for (const int64_t columns : {512, 77}) {
      for (const bool padding : {false, true}) {
        const Shape shape{.columns = columns, .causal = false, .masks = masks, .padding = padding};
        ExpectReady(Forward(shape));
        ExpectReady(Backward(shape));
      }
    }
  }
  ExpectReady(Forward({.width = 8}, /*log_sums=*/false));
  ExpectReady(Forward({.rows = 1, .causal = false}, false));
}

TEST_F(CudnnAttentionTest, KeepsWhatItCompiled) {
  const std::string folder = ::testing::TempDir() + "/plan_files";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  KeepPlansIn(folder);
  const CallSpec call = Forward({.rows = 96, .width = 40});
  absl::StatusOr<cudnn::Choice> made = ChooseCudnnAttention(call, kHopper);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->compiled);
  absl::StatusOr<cudnn::Choice> kept = ChooseCudnnAttention(call, kHopper);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE(kept->compiled);
  EXPECT_EQ(kept->workspace, made->workspace);
}

TEST(CudnnAttention, RefusesWhatEnginesDoNotTake) {
  const auto refused = [](const CallSpec& call) {
    return absl::IsUnimplemented(ChooseCudnnAttention(call, kHopper).status());
  };
  CallSpec call = Forward({});
  call.operands[0].strides = {12 * 512 * 64, 512 * 64, 1, 512};
  EXPECT_TRUE(refused(call)) << "rows that are not contiguous";
  call = Forward({});
  call.operands[0].strides[2] += 1;
  EXPECT_TRUE(refused(call)) << "rows that are not aligned";
  call = Forward({.dtype = DType::kF32});
  EXPECT_TRUE(refused(call)) << "wide floats";
  call = Forward({});
  call.epilogue.insert(call.epilogue.begin(),
                       {PREHEAT_LIB_MASK, {static_cast<int32_t>(DType::kBool), {2, 12, 512, 512}, {0, 0, 512, 1}}});
  EXPECT_TRUE(refused(call)) << "a mask of another type";
  call = Forward({.masks = 1});
  call.epilogue.insert(call.epilogue.begin(), call.epilogue[0]);
  EXPECT_TRUE(refused(call)) << "two masks";
}

}  // namespace
}  // namespace preheat::library
