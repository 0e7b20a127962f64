#include "compiler/rewrite/rules.h"

#include <string>

#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/rewrite/rebuild.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::rewrite {
namespace {

using ir::Builder;
using ir::Op;
using ir::Value;
using ::testing::HasSubstr;

ir::Graph Parsed(absl::string_view text) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

constexpr char kTwice[] =
    "%x = input user f32[2]\n%y = input user f32[2]\n%a = neg(%x)\n%b = neg(%a)\n%c = add(%b, %y)\noutput %c\n";

TEST(RulesTest, RewritesOperandsBeforeTheirUsersAndDropsWhatIsDead) {
  RuleSet rules = {
      {Op::kNeg, {{"--x = x", Is(Op::kNeg, {Is(Op::kNeg, {x})}), x}}},
      {Op::kAdd,
       {{"x + y = x - y", Is(Op::kAdd, {x, y}), [](const Match& m, Builder& b) { return b.Sub(x(m), y(m)); }}}}};
  std::map<std::string, int> hits;
  absl::StatusOr<ir::Graph> once = ApplyRules(Parsed(kTwice), rules, &hits);
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_EQ(hits, (std::map<std::string, int>{{"--x = x", 1}, {"x + y = x - y", 1}}));
  absl::StatusOr<ir::Graph> twice = ApplyRules(*once, rules, nullptr);
  EXPECT_EQ(ir::Print(*twice), ir::Print(Parsed("%x = input user f32[2]\n%y = input user f32[2]\n"
                                                "%c = sub(%x, %y)\noutput %c\n")));
}

TEST(RulesTest, OneCaptureIsOneValue) {
  Match match;
  ir::Graph g = Parsed("%x = input user f32[2]\n%y = input user f32[2]\n%a = add(%x, %x)\n%b = add(%x, %y)\n");
  Pattern same = Is(Op::kAdd, {x, x});
  EXPECT_TRUE(Matches(same, g.nodes()[2].result(), match));
  EXPECT_EQ(match.captured[0], g.input_values()[0]);
  EXPECT_FALSE(Matches(same, g.nodes()[3].result(), match));
}

TEST(RulesTest, EitherWayTriesBothOrders) {
  Match match;
  ir::Graph g = Parsed("%x = input user f32[2]\n%z = fill {value = 0.5} : f32[2]\n%a = mul(%z, %x)\n");
  EXPECT_TRUE(Matches(EitherWay(Op::kMul, x, FillOf(0.5)), g.nodes()[2].result(), match));
  EXPECT_EQ(match.captured[0], g.input_values()[0]);
  EXPECT_TRUE(Matches(EitherWay(Op::kMul, x, FillNear(0.5000001)), g.nodes()[2].result(), match));
  EXPECT_FALSE(Matches(EitherWay(Op::kMul, x, FillOf(0.25)), g.nodes()[2].result(), match));
}

TEST(RulesTest, ZeroIsNotMinusZero) {
  Match match;
  ir::Graph g = Parsed("%a = fill {value = 0.0} : f32[]\n%b = fill {value = -0.0} : f32[]\n");
  EXPECT_TRUE(Matches(FillOf(0.0), g.nodes()[0].result(), match));
  EXPECT_FALSE(Matches(FillOf(0.0), g.nodes()[1].result(), match));
  EXPECT_TRUE(Matches(FillOf(-0.0), g.nodes()[1].result(), match));
}

TEST(RulesTest, ARuleThatChangesTheTypeIsABug) {
  RuleSet rules = {{Op::kNeg, {{"wrong", Is(Op::kNeg, {x}), [](const Match& m, Builder& b) {
                                  return b.Cast(x(m), ir::DType::kF64);
                                }}}}};
  absl::Status status = ApplyRules(Parsed(kTwice), rules, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rule \"wrong\" makes f64[2]"));
}

TEST(RulesTest, RulesThatUndoEachOtherEnd) {
  RuleSet rules = {
      {Op::kAdd, {{"a", Is(Op::kAdd, {x, y}), [](const Match& m, Builder& b) { return b.Add(y(m), x(m)); }}}}};
  std::map<std::string, int> hits;
  ASSERT_TRUE(ApplyRules(Parsed(kTwice), rules, &hits).ok());
  EXPECT_EQ(hits["a"], 16);
}

TEST(RebuildTest, KeepsDebugIdsAndEffects) {
  ir::Graph g;
  Value v = g.AddInput({ir::InputKind::kUser, {ir::DType::kF32, {2}}, {1}});
  ASSERT_TRUE(g.Add(Op::kExtern, {v}, {{"name", std::string("aten.print")}, {"call", std::string()}}, {}, 7).ok());
  ASSERT_TRUE(g.Add(Op::kNeg, {v}, {}, {}, 9).ok());
  EXPECT_EQ(LiveNodes(g), (std::vector<bool>{true, true, false}));
  Rebuild r(g);
  for (const ir::Node& node : g.nodes()) ASSERT_TRUE(r.Copy(node).ok());
  absl::StatusOr<ir::Graph> copy = r.Finish();
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->nodes()[1].debug_id(), 7);
  EXPECT_EQ(copy->nodes()[2].debug_id(), 9);
}

}  // namespace
}  // namespace preheat::rewrite
