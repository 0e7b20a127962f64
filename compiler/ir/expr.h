#ifndef PREHEAT_COMPILER_IR_EXPR_H_
#define PREHEAT_COMPILER_IR_EXPR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::ir {

// An integer expression over named symbols: the size of a dimension, a stride, an offset, an index.
//
// The form is canonical: a polynomial with integer coefficients whose atoms are symbols and the
// opaque functions floordiv, mod, max and min of other expressions. Two expressions that print the
// same are the same. Values are immutable, cheap to copy and safe to share between threads.
//
// floordiv and mod round toward minus infinity (Python's // and %); a divisor must be positive.
class Expr {
 public:
  enum class Fn { kFloorDiv, kMod, kMax, kMin };

  Expr() : Expr(0) {}
  Expr(int64_t value);  // NOLINT: constants convert

  // The symbol of that name: letters, digits and '_', not starting with a digit.
  static Expr Symbol(absl::string_view name);

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  static Expr FloorDiv(const Expr& a, const Expr& b);
  static Expr Mod(const Expr& a, const Expr& b);
  static Expr Max(const Expr& a, const Expr& b);
  static Expr Min(const Expr& a, const Expr& b);
  static Expr CeilDiv(const Expr& a, const Expr& b) { return FloorDiv(a + b - 1, b); }

  // The value, when no symbol is in it.
  std::optional<int64_t> constant() const;
  bool is_constant() const { return constant().has_value(); }
  // The name, when it is a symbol alone.
  std::optional<std::string> symbol() const;

  bool operator==(const Expr& other) const;
  bool operator!=(const Expr& other) const { return !(*this == other); }
  bool operator<(const Expr& other) const;  // a total order, of no other meaning

  // The symbols in it, nested ones included.
  std::set<std::string> Symbols() const;

  // The value with each symbol replaced by what `value_of` gives; a division by zero gives 0.
  int64_t Evaluate(const std::function<int64_t(const std::string&)>& value_of) const;

  // Symbols replaced by expressions; those not in the map stay.
  Expr Substitute(const std::map<std::string, Expr>& with) const;

  // C-like text: "2*d0*d1 + floordiv(d0, 8) - 1". Parse reads the same and plain infix + - * ( ).
  std::string ToString() const;
  static absl::StatusOr<Expr> Parse(absl::string_view text);

  // --- The polynomial, for those who emit or analyse it. ---
  struct Atom;                                // a symbol or a function of expressions
  using Monomial = std::vector<Atom>;         // sorted product of atoms; empty means 1
  using Terms = std::map<Monomial, int64_t>;  // no zero coefficients
  const Terms& terms() const;
  static Expr FromAtom(const Atom& atom);
  static Expr Build(Fn fn, const Expr& a, const Expr& b);

 private:
  struct Rep;
  explicit Expr(Terms terms);
  std::shared_ptr<const Rep> rep_;  // null: a constant, which is `value_`
  int64_t value_ = 0;
};

struct Expr::Atom {
  std::string symbol;      // empty for a function
  Fn fn = Fn::kFloorDiv;   // with `args` when symbol is empty
  std::vector<Expr> args;  // two, for a function

  bool is_symbol() const { return !symbol.empty(); }
  bool operator==(const Atom& other) const;
  bool operator<(const Atom& other) const;
  std::string ToString() const;
};

// What is known of symbols: inclusive bounds, which may name other symbols that were added before.
class Ranges {
 public:
  // A symbol without a maximum has std::nullopt. Bounds of later symbols may refer to earlier ones.
  void Set(const std::string& symbol, Expr min, std::optional<Expr> max);
  const Expr* Min(const std::string& symbol) const;
  const Expr* Max(const std::string& symbol) const;

  // True only when proved; false means "not known".
  bool NonNegative(const Expr& e) const;
  bool LessEqual(const Expr& a, const Expr& b) const { return NonNegative(b - a); }
  bool Less(const Expr& a, const Expr& b) const { return NonNegative(b - a - 1); }

  // Resolves floordiv, mod, max and min where the ranges prove it:
  // floordiv(16*i + j, 16) is i when 0 <= j < 16.
  Expr Simplify(const Expr& e) const;

 private:
  struct Range {
    Expr min;
    std::optional<Expr> max;
    int order;  // later symbols are eliminated first
  };
  Expr SimplifyAtom(const Expr::Atom& atom) const;
  Expr SimplifyNestedDiv(const Expr& a, const Expr& b) const;
  Expr SimplifyNestedMod(const Expr& a, const Expr& b) const;
  std::optional<int64_t> UpperBound(const Expr& e) const;
  std::optional<std::pair<Expr, Expr>> CommonFactor(const Expr& a, const Expr& b) const;
  std::optional<std::pair<Expr, Expr>> Split(const Expr& e, const Expr& divisor) const;
  std::map<std::string, Range> ranges_;
};

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_EXPR_H_
