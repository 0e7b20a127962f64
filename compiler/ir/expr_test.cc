#include "compiler/ir/expr.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace preheat::ir {
namespace {

Expr S(absl::string_view name) { return Expr::Symbol(name); }

Expr P(absl::string_view text) {
  absl::StatusOr<Expr> e = Expr::Parse(text);
  EXPECT_TRUE(e.ok()) << e.status();
  return e.ok() ? *e : Expr(-999);
}

TEST(ExprTest, EqualPolynomialsAreEqual) {
  EXPECT_EQ(P("(a + b) * (a - b)"), P("a*a - b*b"));
  EXPECT_EQ(P("2*a + 3 - a - a"), Expr(3));
  EXPECT_EQ(P("b*a"), P("a*b"));
  EXPECT_NE(P("a"), P("b"));
}

TEST(ExprTest, DivisionTakesOutMultiples) {
  EXPECT_EQ(P("floordiv(6*a, 3)"), P("2*a"));
  EXPECT_EQ(P("floordiv(6*a + b, 3)"), P("2*a + floordiv(b, 3)"));
  EXPECT_EQ(P("mod(6*a + 7, 3)"), Expr(1));
  EXPECT_EQ(P("floordiv(a*b, b)"), S("a"));
  EXPECT_EQ(P("floordiv(0 - 7, 2)"), Expr(-4));
  EXPECT_EQ(P("mod(0 - 7, 2)"), Expr(1));
}

TEST(ExprTest, RangesResolveReshapes) {
  Ranges ranges;
  ranges.Set("n", 1, std::nullopt);
  ranges.Set("i", 0, S("n") - 1);
  ranges.Set("j", 0, Expr(15));
  // [n, 16] seen as flat and back again.
  Expr flat = 16 * S("i") + S("j");
  EXPECT_EQ(ranges.Simplify(Expr::FloorDiv(flat, 16)), S("i"));
  EXPECT_EQ(ranges.Simplify(Expr::Mod(flat, 16)), S("j"));
  // [n, 16] seen as [n, 4, 4].
  EXPECT_EQ(ranges.Simplify(Expr::Mod(Expr::FloorDiv(flat, 4), 4)), P("floordiv(j, 4)"));
  EXPECT_EQ(ranges.Simplify(Expr::FloorDiv(Expr::FloorDiv(flat, 4), 4)), S("i"));
}

TEST(ExprTest, RangesResolveSymbolicReshapes) {
  Ranges ranges;
  ranges.Set("n", 1, std::nullopt);
  ranges.Set("i", 0, Expr(7));
  ranges.Set("j", 0, S("n") - 1);
  Expr flat = S("n") * S("i") + S("j");
  EXPECT_EQ(ranges.Simplify(Expr::FloorDiv(flat, S("n"))), S("i"));
  EXPECT_EQ(ranges.Simplify(Expr::Mod(flat, S("n"))), S("j"));
}

TEST(ExprTest, ProofsAreSound) {
  Ranges ranges;
  ranges.Set("n", 2, Expr(100));
  EXPECT_TRUE(ranges.Less(1, S("n")));
  EXPECT_FALSE(ranges.Less(2, S("n")));
  EXPECT_TRUE(ranges.LessEqual(S("n"), 100));
  EXPECT_FALSE(ranges.LessEqual(S("n"), 99));
  EXPECT_FALSE(ranges.NonNegative(S("unknown")));
  EXPECT_EQ(ranges.Simplify(Expr::Max(S("n"), 1)), S("n"));
}

// Random expressions over small symbols: text comes back the same, simplified means the same.
Expr RandomExpr(std::mt19937& rng, int depth) {
  static const char* const names[] = {"a", "b", "c"};
  switch (depth == 0 ? rng() % 2 : rng() % 8) {
    case 0: return Expr(static_cast<int64_t>(rng() % 20) - 5);
    case 1: return S(names[rng() % 3]);
    case 2: return RandomExpr(rng, depth - 1) + RandomExpr(rng, depth - 1);
    case 3: return RandomExpr(rng, depth - 1) - RandomExpr(rng, depth - 1);
    case 4: return RandomExpr(rng, depth - 1) * Expr(static_cast<int64_t>(rng() % 9));
    case 5: return Expr::FloorDiv(RandomExpr(rng, depth - 1), static_cast<int64_t>(1 + rng() % 8));
    case 6: return Expr::Mod(RandomExpr(rng, depth - 1), static_cast<int64_t>(1 + rng() % 8));
    default:
      return rng() % 2 ? Expr::Max(RandomExpr(rng, depth - 1), RandomExpr(rng, depth - 1))
                       : Expr::Min(RandomExpr(rng, depth - 1), RandomExpr(rng, depth - 1));
  }
}

TEST(ExprTest, RandomExpressionsRoundTripAndSimplifySoundly) {
  Ranges ranges;
  ranges.Set("a", 0, Expr(7));
  ranges.Set("b", 1, Expr(4));
  ranges.Set("c", 0, S("b") - 1);
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 rng(seed);
    Expr e = RandomExpr(rng, 4);
    ASSERT_EQ(P(e.ToString()), e) << "seed " << seed;
    Expr simple = ranges.Simplify(e);
    for (int64_t a = 0; a <= 7; a += 3) {
      for (int64_t b = 1; b <= 4; ++b) {
        for (int64_t c = 0; c < b; ++c) {
          auto value_of = [&](const std::string& s) { return s == "a" ? a : s == "b" ? b : c; };
          ASSERT_EQ(simple.Evaluate(value_of), e.Evaluate(value_of))
              << "seed " << seed << ": " << e.ToString() << " became " << simple.ToString();
        }
      }
    }
  }
}

TEST(ExprTest, SubstituteReplacesEverywhere) {
  EXPECT_EQ(P("a + floordiv(a + 1, 4)").Substitute({{"a", Expr(7)}}), Expr(9));
  EXPECT_EQ(P("a*b").Substitute({{"b", P("a + 1")}}), P("a*a + a"));
}

TEST(ExprTest, HostileTextIsAnError) {
  std::string product = "(a+b+c+d+e+f)";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&product, "*(a+b+c+d+e+f)");
  const std::string hostile[] = {"",
                                 "+",
                                 "a b",
                                 "f(a)",
                                 "floordiv(a)",
                                 "1 +",
                                 "99999999999999999999",
                                 "a$",
                                 "((a)",
                                 std::string(100000, '('),
                                 std::string(100000, 'a'),
                                 product,
                                 std::string("a\0b", 3)};
  for (const std::string& text : hostile) EXPECT_FALSE(Expr::Parse(text).ok()) << text.substr(0, 40);
}

TEST(ExprTest, AbsurdNumbersWrap) {
  EXPECT_TRUE(P("9223372036854775807 * 9223372036854775807").is_constant());
  EXPECT_EQ(P("floordiv(a, 0 - 1)").Evaluate([](const std::string&) { return INT64_MIN; }), INT64_MIN);
  EXPECT_EQ(P("mod(a, 0 - 1)").Evaluate([](const std::string&) { return INT64_MIN; }), 0);
  EXPECT_EQ(P("floordiv(1, a)").Evaluate([](const std::string&) { return 0; }), 0);
}

}  // namespace
}  // namespace preheat::ir
