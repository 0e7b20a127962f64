#include "compiler/capture/sympy_text.h"

#include <cctype>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::Expr;

class SympyParser {
 public:
  SympyParser(absl::string_view text, const std::function<absl::StatusOr<Expr>(const std::string&)>& symbol)
      : text_(text), symbol_(symbol) {}

  absl::StatusOr<Expr> Parse() {
    ASSIGN_OR_RETURN(Expr e, Call(0));
    Skip();
    if (at_ != text_.size()) return Fail("trailing text");
    return e;
  }

 private:
  static constexpr int kMaxDepth = 64;

  absl::Status Fail(absl::string_view why) const {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "unsupported_expression",
                      .message = absl::StrCat("symbolic size \"", text_.substr(0, 200), "\": ", why),
                      .where = "",
                      .fix = "export with sizes that are sums, products, quotients, maxima or minima of dimensions"});
  }

  void Skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::string_view Word() {
    Skip();
    size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || (text_[at_] == '-' && at_ == start))) {
      ++at_;
    }
    return text_.substr(start, at_ - start);
  }

  absl::StatusOr<Expr> Integer() {
    int64_t value;
    if (!absl::SimpleAtoi(Word(), &value) || !Take(')')) return Fail("an integer is malformed");
    RETURN_IF_ERROR(CheckMagnitude(Expr(value)));
    return Expr(value);
  }

  // 's0', positive=True, integer=True)
  absl::StatusOr<Expr> SymbolRest() {
    Skip();
    char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') return Fail("a symbol has no name");
    size_t end = text_.find(quote, at_ + 1);
    if (end == absl::string_view::npos) return Fail("a name does not end");
    std::string name(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    while (Take(',')) {  // assumptions
      Word();
      if (!Take('=')) return Fail("an assumption is malformed");
      Word();
    }
    if (!Take(')')) return Fail("a symbol does not end");
    return symbol_(name);
  }

  absl::StatusOr<Expr> Call(int depth) {
    if (depth > kMaxDepth) return Fail("nested too deeply");
    std::string name(Word());
    if (size_t dot = name.rfind('.'); dot != std::string::npos) name = name.substr(dot + 1);
    if (!Take('(')) return Leaf(name);
    if (name == "Integer") return Integer();
    if (name == "Symbol") return SymbolRest();
    std::vector<Expr> args;
    if (!Take(')')) {
      do {
        ASSIGN_OR_RETURN(Expr arg, Call(depth + 1));
        args.push_back(std::move(arg));
      } while (Take(','));
      if (!Take(')')) return Fail("a ')' is missing");
    }
    return Apply(name, args);
  }

  absl::StatusOr<Expr> Leaf(const std::string& name) {
    if (name == "One") return Expr(1);
    if (name == "Zero") return Expr(0);
    if (name == "NegativeOne") return Expr(-1);
    return Fail(absl::StrCat("\"", name, "\" is not known"));
  }

  absl::StatusOr<Expr> Checked(const Expr& e) {
    RETURN_IF_ERROR(CheckMagnitude(e));
    return e;
  }

  absl::StatusOr<Expr> Product(const Expr& a, const Expr& b) {
    int64_t bound;
    if (__builtin_mul_overflow(Magnitude(a), Magnitude(b), &bound) || bound > kMaxMagnitude) {
      return CheckMagnitude(Expr(kMaxMagnitude + 1));
    }
    return Checked(a * b);
  }

  absl::StatusOr<Expr> Power(const Expr& base, const Expr& exponent) {
    std::optional<int64_t> n = exponent.constant();
    if (!n || *n < 0 || *n > 8) return Fail("a power other than 0 to 8");
    Expr result = 1;
    for (int64_t i = 0; i < *n; ++i) {
      ASSIGN_OR_RETURN(result, Product(result, base));
    }
    return result;
  }

  absl::StatusOr<Expr> Apply(const std::string& name, const std::vector<Expr>& args) {
    if (name == "One" || name == "Zero" || name == "NegativeOne") return Leaf(name);
    if (args.empty()) return Fail(absl::StrCat(name, " without operands"));
    if (name == "Add" || name == "Mul" || name == "Max" || name == "Min") return Fold(name, args);
    if (name == "CeilToInt" || name == "FloorToInt" || name == "TruncToInt") return args[0];
    if (args.size() != 2) return Fail(absl::StrCat("\"", name, "\" is not known"));
    if (name == "Pow" || name == "PowByNatural") return Power(args[0], args[1]);
    if (args[1].constant().value_or(1) <= 0) return Fail("a divisor that is not positive");
    if (name == "FloorDiv" || name == "CleanDiv") return Checked(Expr::FloorDiv(args[0], args[1]));
    if (name == "CeilDiv") return Checked(Expr::CeilDiv(args[0], args[1]));
    if (name == "Mod" || name == "PythonMod") return Checked(Expr::Mod(args[0], args[1]));
    return Fail(absl::StrCat("\"", name, "\" is not known"));
  }

  absl::StatusOr<Expr> Fold(const std::string& name, const std::vector<Expr>& args) {
    Expr result = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      if (name == "Mul") {
        ASSIGN_OR_RETURN(result, Product(result, args[i]));
        continue;
      }
      result = name == "Add"   ? result + args[i]
               : name == "Max" ? Expr::Max(result, args[i])
                               : Expr::Min(result, args[i]);
      RETURN_IF_ERROR(CheckMagnitude(result));
    }
    return result;
  }

  absl::string_view text_;
  const std::function<absl::StatusOr<Expr>(const std::string&)>& symbol_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<Expr> ParseSympy(absl::string_view text,
                                const std::function<absl::StatusOr<Expr>(const std::string&)>& symbol) {
  return SympyParser(text, symbol).Parse();
}

}  // namespace preheat::capture
