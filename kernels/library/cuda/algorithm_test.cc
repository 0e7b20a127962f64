#include "kernels/library/cuda/algorithm.h"

#include <gtest/gtest.h>

namespace preheat::library {
namespace {

CallSpec Product(int64_t rows) {
  CallSpec call;
  call.operands[0] = {static_cast<int32_t>(DType::kF32), {rows, 4}, {4, 1}};
  call.operands[1] = {static_cast<int32_t>(DType::kF32), {4, 3}, {3, 1}};
  call.result = {static_cast<int32_t>(DType::kF32), {rows, 3}, {3, 1}};
  return call;
}

TEST(Algorithm, HoldsForItsLibraryVersionAndCallAlone) {
  const std::string bytes("\0two\n", 5);
  CallSpec call = Product(8);
  call.algorithm = WriteAlgorithm("cublaslt", 130200, call, bytes);
  EXPECT_EQ(ReadAlgorithm("cublaslt", 130200, call).stored, bytes);
  EXPECT_EQ(ReadAlgorithm("cublaslt", 130201, call).stored, "");
  EXPECT_EQ(ReadAlgorithm("cudnn", 130200, call).stored, "");
  CallSpec other = Product(9);
  other.algorithm = call.algorithm;
  EXPECT_EQ(ReadAlgorithm("cublaslt", 130200, other).stored, "");
  call.epilogue.push_back({PREHEAT_LIB_RELU, {}});
  EXPECT_EQ(ReadAlgorithm("cublaslt", 130200, call).stored, "");
}

TEST(Algorithm, IsAProposalsNumberWhileMeasuring) {
  CallSpec call = Product(8);
  EXPECT_EQ(ReadAlgorithm("cudnn", 1, call).rank, 0);
  call.algorithm = "3";
  EXPECT_EQ(ReadAlgorithm("cudnn", 1, call).rank, 3);
  call.algorithm = "3x";
  EXPECT_EQ(ReadAlgorithm("cudnn", 1, call).rank, 0);
}

// Of attention's gradient, where each of the results lies.
TEST(Algorithm, HoldsForTheSameResultsOnly) {
  CallSpec call;
  call.op = PREHEAT_LIB_ATTENTION_GRAD;
  call.more_results = {{static_cast<int32_t>(DType::kBF16), {4, 2}, {2, 1}}};
  call.algorithm = WriteAlgorithm("cudnn", 7, call, "plan");
  EXPECT_EQ(ReadAlgorithm("cudnn", 7, call).stored, "plan");
  call.more_results[0].strides = {1, 4};
  EXPECT_EQ(ReadAlgorithm("cudnn", 7, call).stored, "");
}

}  // namespace
}  // namespace preheat::library
