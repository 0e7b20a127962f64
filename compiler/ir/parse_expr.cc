#include <cctype>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/expr_arithmetic.h"

namespace preheat::ir {
namespace {

std::optional<Expr::Fn> ParseFn(absl::string_view name) {
  for (Expr::Fn fn : {Expr::Fn::kFloorDiv, Expr::Fn::kMod, Expr::Fn::kMax, Expr::Fn::kMin}) {
    if (FnName(fn) == name) return fn;
  }
  return std::nullopt;
}

// Recursive descent over: sum := ['-'] product (('+'|'-') product)*; product := unit ('*' unit)*.
class ExprParser {
 public:
  explicit ExprParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expr> Parse() {
    if (text_.size() > kMaxText) return Fail("a shorter text");
    absl::StatusOr<Expr> e = Sum(0);
    if (!e.ok()) return e;
    Skip();
    if (at_ != text_.size()) return Fail("end of the expression");
    return e;
  }

 private:
  static constexpr int kMaxDepth = 200;
  static constexpr size_t kMaxText = 1 << 14;
  static constexpr size_t kMaxTerms = 512;  // a product of sums grows faster than its text

  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Fail(absl::string_view wanted) const {
    return absl::InvalidArgumentError(
        absl::StrCat("expression \"", text_.substr(0, 200), "\": expected ", wanted, " at column ", at_ + 1));
  }

  absl::StatusOr<Expr> Sum(int depth) {
    if (depth > kMaxDepth) return Fail("less nesting");
    bool negative = Take('-');
    absl::StatusOr<Expr> left = Product(depth);
    if (!left.ok()) return left;
    Expr sum = negative ? Expr(0) - *left : *left;
    while (true) {
      bool plus = Take('+');
      if (!plus && !Take('-')) return sum;
      absl::StatusOr<Expr> right = Product(depth);
      if (!right.ok()) return right;
      sum = plus ? sum + *right : sum - *right;
    }
  }

  absl::StatusOr<Expr> Product(int depth) {
    absl::StatusOr<Expr> left = Unit(depth);
    while (left.ok() && Take('*')) {
      absl::StatusOr<Expr> right = Unit(depth);
      if (!right.ok()) return right;
      if (left->terms().size() * right->terms().size() > kMaxTerms) return Fail("fewer terms");
      left = *left * *right;
    }
    return left;
  }

  absl::StatusOr<Expr> Unit(int depth) {
    Skip();
    if (Take('(')) {
      absl::StatusOr<Expr> inner = Sum(depth + 1);
      if (inner.ok() && !Take(')')) return Fail("')'");
      return inner;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) return Number();
    absl::string_view name = Name();
    if (name.empty()) return Fail("a number or a name");
    if (!Take('(')) return Expr::Symbol(name);
    std::optional<Expr::Fn> fn = ParseFn(name);
    if (!fn) return Fail("floordiv, mod, max or min before '('");
    absl::StatusOr<Expr> a = Sum(depth + 1);
    if (!a.ok()) return a;
    if (!Take(',')) return Fail("','");
    absl::StatusOr<Expr> b = Sum(depth + 1);
    if (!b.ok()) return b;
    if (!Take(')')) return Fail("')'");
    return Expr::Build(*fn, *a, *b);
  }

  absl::StatusOr<Expr> Number() {
    int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        return Fail("a number below 2^63");
      }
      ++at_;
    }
    return Expr(value);
  }

  absl::string_view Name() {
    size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(start, at_ - start);
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<Expr> Expr::Parse(absl::string_view text) { return ExprParser(text).Parse(); }

}  // namespace preheat::ir
