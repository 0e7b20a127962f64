#include "compiler/capture/guard_text.h"

#include <cctype>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "compiler/capture/limits.h"

namespace preheat::capture {
namespace {

using ir::Expr;
using SizeOf = std::function<std::optional<Expr>(const std::string&, int64_t)>;

// Recursive descent: sum := product (('+'|'-') product)*; product := unit (('*'|'//'|'%') unit)*. Any surprise
// ends it with std::nullopt.
class GuardParser {
 public:
  GuardParser(absl::string_view text, const SizeOf& size_of) : rest_(text), size_of_(size_of) {}

  std::optional<std::vector<Expr>> Parse() {
    std::optional<Expr> a = Sum(0);
    absl::string_view comparison;
    for (absl::string_view sign : {"<=", ">=", "==", "<", ">"}) {
      if (comparison.empty() && Take(sign)) comparison = sign;
    }
    std::optional<Expr> b = Sum(0);
    Skip();
    if (!a || !b || comparison.empty() || !rest_.empty()) return std::nullopt;
    if (comparison == "<=") return std::vector<Expr>{*b - *a};
    if (comparison == ">=") return std::vector<Expr>{*a - *b};
    if (comparison == "<") return std::vector<Expr>{*b - *a - 1};
    if (comparison == ">") return std::vector<Expr>{*a - *b - 1};
    return std::vector<Expr>{*a - *b, *b - *a};
  }

 private:
  static constexpr int kMaxDepth = 32;

  void Skip() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }
  bool Take(absl::string_view sign) {
    Skip();
    return absl::ConsumePrefix(&rest_, sign);
  }

  // Nothing that grows beyond the limits of a size is kept.
  static std::optional<Expr> Bounded(std::optional<Expr> e) { return e && CheckMagnitude(*e).ok() ? e : std::nullopt; }

  std::optional<Expr> Sum(int depth) {
    std::optional<Expr> sum = Product(depth);
    while (sum) {
      bool plus = Take("+");
      if (!plus && !Take("-")) return sum;
      std::optional<Expr> next = Product(depth);
      if (!next) return std::nullopt;
      sum = Bounded(plus ? *sum + *next : *sum - *next);
    }
    return std::nullopt;
  }

  std::optional<Expr> Product(int depth) {
    std::optional<Expr> product = Unit(depth);
    while (product) {
      bool divide = Take("//"), modulo = !divide && Take("%");
      if (!divide && !modulo && !Take("*")) return product;
      std::optional<Expr> next = Unit(depth);
      if (!next) return std::nullopt;
      if (divide || modulo) {
        if (next->constant().value_or(0) <= 0) return std::nullopt;
        product = divide ? Expr::FloorDiv(*product, *next) : Expr::Mod(*product, *next);
        continue;
      }
      int64_t bound;
      if (__builtin_mul_overflow(Magnitude(*product), Magnitude(*next), &bound) || bound > kMaxMagnitude)
        return std::nullopt;
      product = Bounded(*product * *next);
    }
    return std::nullopt;
  }

  std::optional<Expr> Unit(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (Take("(")) {
      std::optional<Expr> inner = Sum(depth + 1);
      return inner && Take(")") ? inner : std::nullopt;
    }
    if (Take("L['")) return Size();
    return Number();
  }

  std::optional<Expr> Number() {
    Skip();
    size_t digits = 0;
    while (digits < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[digits]))) ++digits;
    int64_t value;
    if (!absl::SimpleAtoi(rest_.substr(0, digits), &value)) return std::nullopt;
    rest_.remove_prefix(digits);
    return Bounded(Expr(value));
  }

  // x'].size()[0]
  std::optional<Expr> Size() {
    size_t end = rest_.find('\'');
    if (end == absl::string_view::npos) return std::nullopt;
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end);
    if (!absl::ConsumePrefix(&rest_, "'].size()[")) return std::nullopt;
    std::optional<Expr> axis = Number();
    if (!axis || !absl::ConsumePrefix(&rest_, "]")) return std::nullopt;
    return size_of_(name, *axis->constant());
  }

  absl::string_view rest_;
  const SizeOf& size_of_;
};

}  // namespace

std::optional<std::vector<Expr>> ParseGuard(absl::string_view text, const SizeOf& size_of) {
  return GuardParser(text, size_of).Parse();
}

}  // namespace preheat::capture
