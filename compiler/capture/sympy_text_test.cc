#include "compiler/capture/sympy_text.h"

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

absl::StatusOr<ir::Expr> Parse(absl::string_view text) {
  return ParseSympy(text, [](const std::string& name) -> absl::StatusOr<ir::Expr> { return ir::Expr::Symbol(name); });
}

std::string Text(absl::string_view text) {
  absl::StatusOr<ir::Expr> e = Parse(text);
  return e.ok() ? e->ToString() : GetError(e.status()).kind;
}

TEST(SympyText, ReadsWhatTorchWrites) {
  EXPECT_EQ(Text("Symbol('s77', positive=True, integer=True)"), "s77");
  EXPECT_EQ(Text("Integer(-3)"), "-3");
  EXPECT_EQ(Text("Add(Integer(1), FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), Integer(2)))"),
            ir::Expr::Parse("floordiv(s0 - 1, 2) + 1")->ToString());
  EXPECT_EQ(Text("Mul(Integer(2), Symbol('s0'), Pow(Symbol('s1'), Integer(2)))"), "2*s0*s1*s1");
  EXPECT_EQ(Text("Max(One(), Mod(Symbol('s0'), Integer(8)))"), ir::Expr::Parse("max(1, mod(s0, 8))")->ToString());
  EXPECT_EQ(Text("Min(Symbol('s0'), Integer(4))"), ir::Expr::Parse("min(s0, 4)")->ToString());
}

TEST(SympyText, RefusesWhatIsNoIntegerExpression) {
  EXPECT_EQ(Text("Rational(1, 2)"), "unsupported_expression");
  EXPECT_EQ(Text("FloorDiv(Symbol('s0'), Integer(0))"), "unsupported_expression");
  EXPECT_EQ(Text("Pow(Symbol('s0'), Symbol('s1'))"), "unsupported_expression");
  EXPECT_EQ(Text("Symbol('s0"), "unsupported_expression");
  EXPECT_EQ(Text("Symbol('s0') Symbol('s1')"), "unsupported_expression");
  EXPECT_EQ(Text(""), "unsupported_expression");
}

TEST(SympyText, BoundsNumbersAndNesting) {
  EXPECT_EQ(Text("Integer(4611686018427387904)"), "size_overflow");
  EXPECT_EQ(Text("Mul(Integer(281474976710656), Integer(281474976710656))"), "size_overflow");
  std::string nested = "Symbol('s0')";
  for (int i = 0; i < 100; ++i) nested = absl::StrCat("FloorDiv(", nested, ", Integer(2))");
  EXPECT_EQ(Text(nested), "unsupported_expression");
}

}  // namespace
}  // namespace preheat::capture
