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

TEST(LayoutsTest, ResultsOfTorchLieAsItMakesThem) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(R"(
%x = input user f32[2, 4, 8, 16]
%a = extern(%x) {name = "attend", call = "{}", orders = [0, 2, 1, 3]} : f32[2, 4, 8, 16]
%b = exp(%a)
output %b
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ir::Value made = graph->outputs()[0].value.node->operand(0);
  EXPECT_THAT(Layouts(*graph).StridesOf(made), ElementsAre(ir::Expr(512), ir::Expr(16), ir::Expr(64), ir::Expr(1)));
}

// Only what is permuted there and back: passes/lay_out_convolutions.h says so that a GPU's library is to write it so.
TEST(LayoutsTest, GradientsOfImagesAreStoredChannelsLastWhereAPassSaysSo) {
  constexpr char kText[] = R"(
%g = input user f32[2, 8, 5, 5]
%w = input user f32[8, 4, 1, 1]
%x = conv_grad_input(%g, %w) {stride = [1, 1], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : f32[2, 4, 5, 5]
%p = permute(%x) {dims = [0, 2, 3, 1]}
)";
  const auto innermost = [](const std::string& text) {
    absl::StatusOr<ir::Graph> graph = ir::ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    for (const ir::Node& node : graph->nodes()) {
      if (node.op() == ir::Op::kConvGradInput) return Layouts(*graph).StridesOf(node.result())[1] == ir::Expr(1);
    }
    return false;
  };
  EXPECT_TRUE(innermost(std::string(kText) + "%q = permute(%p) {dims = [0, 3, 1, 2]}\n%e = exp(%q)\noutput %e\n"));
  EXPECT_FALSE(innermost(std::string(kText) + "%e = exp(%p)\noutput %e\n"));
}

TEST(FuseTest, ACallWithoutResultsIsAStep) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(R"(
%x = input user f32[64]
%a = exp(%x)
%check = extern(%a) {name = "check", call = "{}"}
output %x
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(ExternOrder(*graph), ElementsAre("check"));
}

// %r1 and %r2 are merged, so %q, and with it %g, now depends on %z and so on %f: these two must stay apart.
TEST(FuseTest, MergedGroupsBringLateNodesBeforeEarlyOnes) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(R"(
%x = input user f32[64, 32]
%y = input user f32[64, 48]
%u = input user f32[64, 48]
%v = input user f32[64, 32]
%r1 = reduce_sum(%x) {dims = [1]}
%row1 = reshape(%r1) {shape = (1, 64)}
%q = matmul(%row1, %u)
%f = reduce_sum(%y) {dims = [1]}
%row2 = reshape(%f) {shape = (1, 64)}
%z = matmul(%row2, %v)
%zs = broadcast(%z) {shape = (64, 32)}
%xz = mul(%x, %zs)
%r2 = reduce_max(%xz) {dims = [1]}
%qs = broadcast(%q) {shape = (64, 48)}
%yq = mul(%y, %qs)
%g = reduce_max(%yq) {dims = [1]}
output %r1
output %f
output %r2
output %g
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  Layouts layouts(*graph);
  absl::StatusOr<Partition> partition = Fuse(*graph, layouts);
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_EQ(partition->steps.size(), 5u);  // {r1, r2}, q, f, z, g
}

}  // namespace
}  // namespace preheat::schedule
