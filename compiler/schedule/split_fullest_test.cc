#include "compiler/schedule/split_fullest.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/parse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::schedule {
namespace {

using ::testing::ElementsAre;

// "call" and "pointwise 2", a region with the number of its results.
std::vector<std::string> Steps(const std::string& text) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  Layouts layouts(*graph);
  absl::StatusOr<Partition> partition = Fuse(*graph, layouts);
  EXPECT_TRUE(partition.ok()) << partition.status();
  SplitFullest(*graph, layouts, *partition);
  std::vector<std::string> steps;
  for (const Step& step : partition->steps)
    steps.push_back(step.region ? absl::StrCat("region ", step.region->outputs.size()) : "call");
  return steps;
}

// Two parts of one product, transposed for the next two, which make them small.
std::string TwoParts(const std::string& columns) {
  return absl::StrCat(R"(
%x = input user f32[64, 64]
%w = input parameter f32[64, 128]
%u = input parameter f32[64, )",
                      columns, R"(]
%p = matmul(%x, %w)
%q = neg(%p)
%a = slice(%q) {starts = (0, 0), sizes = (64, 64), steps = [1, 1]}
%b = slice(%q) {starts = (0, 64), sizes = (64, 64), steps = [1, 1]}
%ra = reshape(%a) {shape = (64, 8, 8)}
%rb = reshape(%b) {shape = (64, 8, 8)}
%ta = permute(%ra) {dims = [2, 0, 1]}
%tb = permute(%rb) {dims = [2, 0, 1]}
%ca = reshape(%ta) {shape = (64, 64)}
%cb = reshape(%tb) {shape = (64, 64)}
%ma = matmul(%ca, %u)
%mb = matmul(%cb, %u)
%s = add(%ma, %mb)
output %s
)");
}

TEST(SplitFullest, EachPartJustBeforeItsReader) {
  EXPECT_THAT(Steps(TwoParts("2")), ElementsAre("call", "region 1", "call", "region 1", "call", "region 1"));
}

// Where the products are as large as what they read, nothing is spared.
TEST(SplitFullest, NotForNothing) {
  EXPECT_THAT(Steps(TwoParts("512")), ElementsAre("call", "region 2", "call", "call", "region 1"));
}

}  // namespace
}  // namespace preheat::schedule
