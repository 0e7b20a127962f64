#include "compiler/passes/pipeline.h"

#include <atomic>
#include <string>
#include <vector>

#include "compiler/passes/testing.h"
#include "compiler/support/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::passes {
namespace {

using ::testing::HasSubstr;

// Two layers as an importer writes them: shapes widened one step at a time, scalars as 0-d constants.
constexpr char kMlp[] = R"(
symbol b in [1, inf]
%x = input user f32[b, 8]
%w1 = input parameter f32[16, 8]
%b1 = input parameter f32[16]
%w2 = input parameter f32[4, 16]
%b2 = input parameter f32[4]
%t1 = permute(%w1) {dims = [1, 0]}
%m1 = matmul(%x, %t1)
%r1 = reshape(%b1) {shape = (1, 16)}
%e1 = broadcast(%r1) {shape = (b, 16)}
%a1 = add(%m1, %e1)
%zero = constant {data = x"00000000"} : f32[]
%z2 = reshape(%zero) {shape = (1, 1)}
%zb = broadcast(%z2) {shape = (b, 16)}
%h = max(%a1, %zb)
%t2 = permute(%w2) {dims = [1, 0]}
%m2 = matmul(%h, %t2)
%r2 = reshape(%b2) {shape = (1, 4)}
%e2 = broadcast(%r2) {shape = (b, 4)}
%a2 = add(%m2, %e2)
%unused = exp(%a2)
output %a2
)";

constexpr char kMlpAfter[] = R"(
symbol b in [1, inf]
%x = input user f32[b, 8]
%w1 = input parameter f32[16, 8]
%b1 = input parameter f32[16]
%w2 = input parameter f32[4, 16]
%b2 = input parameter f32[4]
%t1 = permute(%w1) {dims = [1, 0]}
%h = fused(%x, %t1, %b1) {base = "matmul", epilogue = {"bias", "relu"}} : f32[b, 16]
%t2 = permute(%w2) {dims = [1, 0]}
%y = fused(%h, %t2, %b2) {base = "matmul", epilogue = {"bias"}} : f32[b, 4]
output %y
)";

TEST(PipelineTest, AnMlpIsTwoLibraryCalls) {
  absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(kMlp), {.verify = true});
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(ir::Print(*after), Canonical(kMlpAfter));
  ExpectSameResults(Parsed(kMlp), *after, 1e-5);
}

TEST(PipelineTest, AGpuHasPassesOfItsOwn) {
  std::vector<std::string> names, expected;
  auto on_pass = [&](const PassEvent& event) { names.emplace_back(event.name); };
  absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(kMlp), {.on_pass = on_pass, .gpu = true});
  ASSERT_TRUE(after.ok()) << after.status();
  for (const Pass& pass : Passes()) {
    if (pass.targets != For::kCpu) expected.emplace_back(pass.name);
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(ir::Print(*after), Canonical(kMlpAfter));  // these epilogues its library has too
  ExpectSameResults(Parsed(kMlp), *after, 1e-5);
}

// A backward pass whose saved images lie with their channels last: so does all that is computed, and nothing is copied.
TEST(PipelineTest, AGpusGradientsLieAsWhatWasSaved) {
  absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(R"(
%g = input user f32[2, 8, 6, 6] strides [288, 1, 48, 8]
%s = input user f32[2, 8, 6, 6] strides [288, 1, 48, 8]
%x = input user f32[2, 4, 6, 6] strides [144, 1, 24, 4]
%w = input user f32[8, 4, 3, 3]
%m = mul(%g, %s)
%d = conv_grad_input(%m, %w) {stride = [1, 1], padding = [1, 1], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : f32[2, 4, 6, 6]
%e = mul(%d, %x)
output %e strides [144, 1, 24, 4]
)"),
                                                {.verify = true, .gpu = true});
  ASSERT_TRUE(after.ok()) << after.status();
  const std::string text = ir::Print(*after);
  int on_twins = 0, copies = 0;
  for (const ir::Node& node : after->nodes()) {
    on_twins += node.op() == ir::Op::kMul && node.results()[0].shape[1] == ir::Expr(6);
    copies += node.op() == ir::Op::kPad && node.results()[0].shape.back() != ir::Expr(4);  // the filter's is one
  }
  EXPECT_EQ(on_twins, 2) << text;
  EXPECT_EQ(copies, 0) << text;
}

// Sums of an image's channels that lie side by side: one block of threads would do a hundred thousand rows. They do
// where the image was made of tokens, where the caller passes it so or wants it so, where torch makes it so, and where
// a gradient follows what it is made of.
TEST(PipelineTest, SumsOfColumnsAreSpreadWhicheverDimensionTheyAre) {
  const char* const programs[] = {
      R"(
%x = input user f32[32, 56, 56, 40]
%p = permute(%x) {dims = [0, 3, 1, 2]}
%m = mul(%p, %p)
%s = reduce_sum(%m) {dims = [0, 2, 3]}
output %s
)",
      R"(
%x = input user f32[32, 40, 56, 56] strides [125440, 1, 2240, 40]
%m = mul(%x, %x)
%s = reduce_sum(%m) {dims = [0, 2, 3]}
output %s
)",
      R"(
%x = input user f32[32, 8, 56, 56] strides [25088, 1, 448, 8]
%w = input user f32[40, 8, 1, 1]
%c = conv(%x, %w) {stride = [1, 1], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : f32[32, 40, 56, 56]
%m = mul(%c, %c)
%s = reduce_sum(%m) {dims = [0, 2, 3]}
output %c strides [125440, 1, 2240, 40]
output %s
)",
      R"(
%x = input user f32[32, 40, 56, 56]
%c = extern(%x) {name = "torch's", call = "{}", orders = [0, 2, 3, 1]} : f32[32, 40, 56, 56]
%m = mul(%c, %c)
%s = reduce_sum(%m) {dims = [0, 2, 3]}
output %s
)",
      R"(
%g = input user f32[32, 8, 56, 56] strides [25088, 1, 448, 8]
%w = input user f32[8, 40, 1, 1]
%h = mul(%g, %g)
%c = conv_grad_input(%h, %w) {stride = [1, 1], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : f32[32, 40, 56, 56]
%s = reduce_sum(%c) {dims = [0, 2, 3]}
output %s
)"};
  for (const char* program : programs) {
    absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(program), {.verify = true, .gpu = true});
    ASSERT_TRUE(after.ok()) << after.status();
    int sums = 0;
    for (const ir::Node& node : after->nodes()) sums += node.op() == ir::Op::kReduceSum;
    EXPECT_EQ(sums, 2) << ir::Print(*after);
  }
}

TEST(PipelineTest, TellsEachPassAndWhetherItChangedTheGraph) {
  std::vector<std::string> names, changed;
  auto on_pass = [&](const PassEvent& event) {
    names.emplace_back(event.name);
    if (event.changed) changed.emplace_back(event.name);
    EXPECT_GE(event.seconds, 0);
    EXPECT_GT(event.nodes, 0);
  };
  ASSERT_TRUE(RunPipeline(Parsed(kMlp), {.on_pass = on_pass}).ok());
  std::vector<std::string> expected;
  for (const Pass& pass : Passes()) {
    if (pass.targets != For::kGpu) expected.emplace_back(pass.name);
  }
  EXPECT_EQ(names, expected);
  EXPECT_THAT(changed, ::testing::Contains("form_library_epilogues"));
  EXPECT_THAT(changed, ::testing::Not(::testing::Contains("split_reductions")));
}

TEST(PipelineTest, DisabledPassesDoNotRun) {
  absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(kMlp), {.disabled = {"form_library_epilogues"}});
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(ir::Print(*after), ::testing::Not(HasSubstr("fused")));
  std::set<std::string> all;
  for (const Pass& pass : Passes()) all.insert(std::string(pass.name));
  absl::StatusOr<ir::Graph> same = RunPipeline(Parsed(kMlp), {.disabled = all});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(ir::Print(*same), ir::Print(Parsed(kMlp)));
}

TEST(PipelineTest, AnUnknownNameIsTheUsersMistake) {
  absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(kMlp), {.disabled = {"make_fast"}});
  EXPECT_EQ(after.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetError(after.status()).kind, "unknown_pass");
  EXPECT_THAT(GetError(after.status()).fix, HasSubstr("simplify"));
}

TEST(PipelineTest, CancelsBetweenPasses) {
  std::atomic<bool> cancelled = false;
  int ran = 0;
  auto on_pass = [&](const PassEvent&) { cancelled = ++ran == 2; };
  absl::StatusOr<ir::Graph> after = RunPipeline(Parsed(kMlp), {.on_pass = on_pass, .cancelled = &cancelled});
  EXPECT_EQ(after.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ran, 2);
}

TEST(PipelineTest, ABrokenGraphIsNamedBeforeAnyPass) {
  ir::Graph graph;
  ir::Value x = graph.AddInput({ir::InputKind::kUser, {ir::DType::kF32, {2, 3}}, {1}});
  graph.AddOutput({x, {3, 1}});
  absl::StatusOr<ir::Graph> after = RunPipeline(std::move(graph), {.verify = true});
  EXPECT_EQ(after.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(after.status().message()), HasSubstr("stride"));
}

}  // namespace
}  // namespace preheat::passes
