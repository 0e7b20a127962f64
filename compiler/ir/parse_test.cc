#include "compiler/ir/parse.h"

#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::ir {
namespace {

using ::testing::HasSubstr;

std::string EveryOp() {
  std::ifstream file(PREHEAT_SOURCE_DIR "/tests/ir/every_op.hir");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void ExpectSame(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.symbols(), b.symbols());
  EXPECT_EQ(a.inputs(), b.inputs());
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node &x = a.nodes()[i], &y = b.nodes()[i];
    EXPECT_EQ(x.op(), y.op());
    EXPECT_EQ(x.results(), y.results());
    EXPECT_EQ(x.operands().size(), y.operands().size());
    if (x.op() != Op::kFill || !std::holds_alternative<double>(x.attrs().at("value"))) {  // a NaN differs from itself
      EXPECT_EQ(x.attrs(), y.attrs()) << Print(x);
    }
  }
  ASSERT_EQ(a.outputs().size(), b.outputs().size());
}

TEST(ParseTest, EveryOperatorRoundTrips) {
  absl::StatusOr<Graph> graph = ParseGraph(EveryOp());
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::set<Op> seen;
  for (const Node& node : graph->nodes()) seen.insert(node.op());
  for (int i = 0; i < NumOps(); ++i) {
    EXPECT_EQ(seen.count(static_cast<Op>(i)), 1) << Info(static_cast<Op>(i)).name << " is not in every_op.hir";
  }
  std::string text = Print(*graph);
  absl::StatusOr<Graph> again = ParseGraph(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Print(*again), text);
  ExpectSame(*graph, *again);
}

TEST(ParseTest, DoublesComeBackBitForBit) {
  for (double value : {0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, -1.0 / 3, 1e16, 123456789.0}) {
    std::string text = absl::StrCat("%0 = fill {value = ", PrintDouble(value), "} : f64[]\noutput %0 strides []\n");
    absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    double back = std::get<double>(graph->nodes()[0].ScalarAttr("value"));
    EXPECT_EQ(std::signbit(back), std::signbit(value));
    EXPECT_EQ(back, value);
    EXPECT_EQ(Print(*graph), text);
  }
}

TEST(ParseTest, TextHasNoNamesAndNoDebugIds) {
  Graph a;
  Value x = a.AddInput({InputKind::kUser, {DType::kF32, {2}}, {1}});
  ASSERT_TRUE(a.Add(Op::kNeg, {x}, {}, {}, 17).ok());
  absl::StatusOr<Graph> b = ParseGraph("%anything = input user f32[2]\n%else = neg(%anything)\n");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(Print(a), Print(*b));
}

struct Bad {
  const char* text;
  const char* where;
  const char* message;
};

TEST(ParseTest, ErrorsNameThePlace) {
  const Bad bad[] = {
      {"%0 = input user f32[2]\n%1 = frob(%0)\n", "2:6", "there is no operator \"frob\""},
      {"%0 = input user f32[2]\n%1 = neg(%2)\n", "2:12", "there is no value %2 above"},
      {"%0 = input user f99[2]\n", "1:20", "expected a type"},
      {"%0 = input nobody f32[2]\n", "1:12", "expected parameter, buffer, user or constant"},
      {"%0 = input user f32[2 +]\n", "1:21", "expected a number or a name"},
      {"%0 = input user f32[2]\n%1 = permute(%0) {dims = [1]}\n", "2:6", "dims has 1"},
      {"%0 = input user f32[2]\n%1 = neg(%0) : f32[3]\n", "2:6", "the result is f32[2]"},
      {"%0 = input user f32[2]\n%0 = neg(%0)\n", "2:3", "is there already"},
      {"%0 = input user f32[2]\n%1 = neg(%0.1)\n", "2:14", "has 1 results"},
      {"%0 = input user f32[2]\noutput %0 strides [1] mutates 5\n", "3:1", "names no input"},
      {"%0 = input user f32[k]\n", "2:1", "undeclared symbol k"},
      {"symbol k in [4, 2]\n", "2:1", "has no values"},
      {"%0 = fill {value = 1.5.5} : f32[]", "1:20", "expected a number"},
      {"%0 = fill {value = 1.5, value = 2.5} : f32[]", "1:36", "there twice"},
      {"what", "1:1", "expected 'symbol', 'output' or a value"},
  };
  for (const Bad& b : bad) {
    absl::StatusOr<Graph> graph = ParseGraph(b.text);
    ASSERT_FALSE(graph.ok()) << b.text;
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(b.message)) << b.text;
    EXPECT_EQ(GetError(graph.status()).where, b.where) << b.text;
  }
}

// Shapes made of shapes must not grow without bound.
TEST(ParseTest, RunawayShapesAreRefused) {
  std::string text = "symbol n in [1, inf]\n%0 = input user f32[n]\n";
  for (int i = 0; i < 2000; ++i) {
    std::string from = i == 0 ? "0" : absl::StrCat("c", i - 1);
    absl::StrAppend(&text, "%a", i, " = window(%", from, ") {dim = 0, size = 1, step = 3, dilation = 1}\n%b", i,
                    " = reduce_sum(%a", i, ") {dims = [1]}\n%c", i, " = concat(%b", i, ", %", from, ") {dim = 0}\n");
  }
  absl::StatusOr<Graph> graph = ParseGraph(text);
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("too large"));
}

TEST(ParseTest, DamagedTextNeverCrashes) {
  const std::string text = Print(*ParseGraph(EveryOp()));
  const std::string alphabet = "%=(){}[]<>,:.\"x-0123456789abcdefinfnan \n";
  int accepted = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    std::string damaged = text;
    for (int i = 0, n = 1 + rng() % 3; i < n; ++i) {
      size_t at = rng() % damaged.size();
      switch (rng() % 4) {
        case 0: damaged.erase(at, 1 + rng() % 20); break;
        case 1: damaged[at] = alphabet[rng() % alphabet.size()]; break;
        case 2: damaged.insert(at, 1, static_cast<char>(rng() % 256)); break;
        default: damaged.insert(at, damaged.substr(rng() % damaged.size(), rng() % 60)); break;
      }
    }
    absl::StatusOr<Graph> graph = ParseGraph(damaged);
    if (!graph.ok()) {
      EXPECT_FALSE(GetError(graph.status()).where.empty());
      continue;
    }
    ++accepted;  // then it is a graph like any other
    EXPECT_EQ(Print(*ParseGraph(Print(*graph))), Print(*graph)) << "seed " << seed;
  }
  EXPECT_GT(accepted, 0);
}

TEST(VerifyTest, FindsWhatGraphAddCannotSee) {
  Graph g;
  Value x = g.AddInput({InputKind::kUser, {DType::kF32, {2, 3}}, {3, 1}});
  Graph other;
  Value foreign = other.AddInput({InputKind::kUser, {DType::kF32, {2, 3}}, {3, 1}});
  EXPECT_TRUE(Verify(g).ok());
  ASSERT_TRUE(g.Add(Op::kAdd, {x, foreign}).ok());
  EXPECT_THAT(std::string(Verify(g).message()), HasSubstr("node 1 has an operand from elsewhere"));

  Graph strides;
  strides.AddInput({InputKind::kUser, {DType::kF32, {2, 3}}, {1}});
  EXPECT_THAT(std::string(Verify(strides).message()), HasSubstr("not one stride a dimension"));

  Graph mutation;
  Value y =
      mutation.AddInput({.kind = InputKind::kParameter, .type = {DType::kF32, {2}}, .strides = {1}, .frozen = true});
  mutation.AddOutput({y, {1}, 0});
  EXPECT_THAT(std::string(Verify(mutation).message()), HasSubstr("mutates a frozen input"));
}

}  // namespace
}  // namespace preheat::ir
