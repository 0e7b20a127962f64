#include "compiler/schedule/fuse.h"

#include <string>
#include <vector>

#include "compiler/ir/parse.h"
#include "compiler/schedule/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::schedule {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> ExternOrder(const ir::Graph& graph) {
  Layouts layouts(graph);
  absl::StatusOr<Partition> partition = Fuse(graph, layouts);
  EXPECT_TRUE(partition.ok()) << partition.status();
  std::vector<std::string> order;
  for (const Step& step : partition->steps) {
    if (step.call && step.call->op() == ir::Op::kExtern) order.push_back(step.call->String("name"));
  }
  return order;
}

// %a and %b read %x by the same loop. One kernel for both would have to wait for "second", and "first" for that kernel.
TEST(FuseTest, ExternCallsKeepTheirOrder) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(R"(
%x = input user f32[64]
%a = exp(%x)
%first = extern(%a) {name = "first", call = "{}"} : f32[64]
%second = extern(%x) {name = "second", call = "{}"} : f32[64]
%b = mul(%x, %second)
output %first
output %b
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(ExternOrder(*graph), ElementsAre("first", "second"));
}

}  // namespace
}  // namespace preheat::schedule
