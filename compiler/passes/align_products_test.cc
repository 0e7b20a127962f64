#include "compiler/passes/align_products.h"

#include <string>

#include "compiler/passes/testing.h"
#include "gtest/gtest.h"

namespace preheat::passes {
namespace {

// A product forward, and both of its gradients, with an odd number of columns.
constexpr char kProducts[] = R"(
%x = input user bf16[72, 64]
%w = input parameter bf16[67, 64]
%g = input user bf16[72, 67]
%t = permute(%w) {dims = [1, 0]}
%p = matmul(%x, %t)
%q = matmul(%g, %w)
%u = permute(%g) {dims = [1, 0]}
%r = matmul(%u, %x)
output %p
output %q
output %r
)";

absl::StatusOr<ir::Graph> FromOne(const ir::Graph& graph) { return AlignProductsFrom(graph, 1); }

TEST(AlignProducts, PadsTheOddDimensionOfEveryProduct) {
  const std::string after = After(FromOne, kProducts);
  // [72, 64] x [64, 67 + 5], [72, 67 + 5] x [67 + 5, 64], [67 + 5, 72] x [72, 64]
  for (const char* type : {": bf16[72, 72]\n", ": bf16[72, 64]\n"}) {
    EXPECT_NE(after.find(std::string(") ") + type), std::string::npos) << after;
  }
  EXPECT_EQ(after.find("matmul"), after.find("matmul("));
  EXPECT_EQ(after.find("bf16[72, 67] = "), std::string::npos);
  ExpectSameResults(Parsed(kProducts), Parsed(after), 2e-2);
}

TEST(AlignProducts, LeavesSmallProductsAndThoseOfFewRows) {
  EXPECT_EQ(After(AlignProducts, kProducts), Canonical(kProducts));
  constexpr char kVector[] = R"(
%x = input user bf16[1, 64]
%w = input parameter bf16[64, 67]
%p = matmul(%x, %w)
output %p
)";
  EXPECT_EQ(After(FromOne, kVector), Canonical(kVector));
}

}  // namespace
}  // namespace preheat::passes
