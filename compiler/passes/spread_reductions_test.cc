#include "compiler/passes/spread_reductions.h"

#include <string>

#include "compiler/passes/testing.h"
#include "gtest/gtest.h"

namespace preheat::passes {
namespace {

int Sums(const std::string& text) {
  int sums = 0;
  for (size_t at = text.find("reduce_sum("); at != std::string::npos; at = text.find("reduce_sum(", at + 1)) ++sums;
  return sums;
}

// (Which dimension of an image counts is in pipeline_test, with the passes that lay images out.)

// How many reductions there are where there was one; the results are the same.
int SumsAfter(const std::string& text) {
  const std::string after = After(SpreadReductions, text);
  ExpectSameResults(Parsed(text), Parsed(after), 1e-3);
  return Sums(after);
}

TEST(SpreadReductions, GivesColumnsPartsOfTheirRows) {
  EXPECT_EQ(SumsAfter(R"(
%x = input user f32[2048, 64]
%s = reduce_sum(%x) {dims = [0]}
output %s
)"),
            2);
}

// A layer norm's gradient by its weight, where the gradient comes from a product whose result is read permuted (an MLP
// mixer's): columns are walked through along the last dimension, wherever the first operand's elements lie.
TEST(SpreadReductions, CountsColumnsByTheLastDimensionOverPermutedOperands) {
  EXPECT_EQ(SumsAfter(R"(
%g = input user f32[64, 64, 96]
%x = input user f32[64, 96, 64]
%p = permute(%g) {dims = [0, 2, 1]}
%m = mul(%p, %x)
%s = reduce_sum(%m) {dims = [0, 1]}
output %s
)"),
            2);
}

TEST(SpreadReductions, LeavesRowsAndWhatIsSmall) {
  for (const char* text : {R"(
%x = input user f32[512, 1024]
%s = reduce_sum(%x) {dims = [1]}
output %s
)",
                           R"(
%x = input user f32[256, 64]
%s = reduce_sum(%x) {dims = [0]}
output %s
)",
                           R"(
%x = input user f32[4, 64, 32, 32]
%s = reduce_sum(%x) {dims = [0, 2, 3]}
output %s
)"}) {
    EXPECT_EQ(SumsAfter(text), 1) << text;
  }
}

}  // namespace
}  // namespace preheat::passes
