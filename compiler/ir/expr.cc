#include "compiler/ir/expr.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace preheat::ir {
namespace {

// Signed arithmetic that wraps: sizes from outside may be absurd, which is no reason for undefined behaviour.
int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t FloorDivInt(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return WrapMul(a, -1);  // the one quotient that overflows
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

int64_t Apply(Expr::Fn fn, int64_t a, int64_t b) {
  switch (fn) {
    case Expr::Fn::kFloorDiv: return FloorDivInt(a, b);
    case Expr::Fn::kMod: return b == 0 || b == -1 ? 0 : a - FloorDivInt(a, b) * b;
    case Expr::Fn::kMax: return std::max(a, b);
    case Expr::Fn::kMin: return std::min(a, b);
  }
  return 0;
}

absl::string_view FnName(Expr::Fn fn) {
  switch (fn) {
    case Expr::Fn::kFloorDiv: return "floordiv";
    case Expr::Fn::kMod: return "mod";
    case Expr::Fn::kMax: return "max";
    case Expr::Fn::kMin: return "min";
  }
  return "";
}

std::optional<Expr::Fn> ParseFn(absl::string_view name) {
  for (Expr::Fn fn : {Expr::Fn::kFloorDiv, Expr::Fn::kMod, Expr::Fn::kMax, Expr::Fn::kMin}) {
    if (FnName(fn) == name) return fn;
  }
  return std::nullopt;
}

void AddTerm(Expr::Terms& terms, const Expr::Monomial& monomial, int64_t coefficient) {
  if (coefficient == 0) return;
  auto [it, fresh] = terms.try_emplace(monomial, coefficient);
  if (fresh) return;
  it->second = WrapAdd(it->second, coefficient);
  if (it->second == 0) terms.erase(it);
}

}  // namespace

struct Expr::Rep {
  Terms terms;
};

bool Expr::Atom::operator==(const Atom& other) const {
  return symbol == other.symbol && (is_symbol() || (fn == other.fn && args == other.args));
}

bool Expr::Atom::operator<(const Atom& other) const {
  if (symbol != other.symbol) return symbol < other.symbol;
  if (is_symbol()) return false;
  if (fn != other.fn) return fn < other.fn;
  return args < other.args;
}

std::string Expr::Atom::ToString() const {
  if (is_symbol()) return symbol;
  return absl::StrCat(FnName(fn), "(", args[0].ToString(), ", ", args[1].ToString(), ")");
}

Expr::Expr(int64_t value) : value_(value) {}

Expr::Expr(Terms terms) {
  if (terms.empty()) return;
  if (terms.size() == 1 && terms.begin()->first.empty()) {
    value_ = terms.begin()->second;
    return;
  }
  rep_ = std::make_shared<const Rep>(Rep{std::move(terms)});
}

Expr Expr::Symbol(absl::string_view name) { return Expr(Terms{{{Atom{std::string(name), Fn::kFloorDiv, {}}}, 1}}); }

const Expr::Terms& Expr::terms() const {
  if (rep_) return rep_->terms;
  thread_local std::map<int64_t, Terms> constants;  // a view of a constant as a polynomial
  Terms& terms = constants[value_];
  if (value_ != 0 && terms.empty()) terms[{}] = value_;
  return terms;
}

std::optional<int64_t> Expr::constant() const {
  if (rep_) return std::nullopt;
  return value_;
}

std::optional<std::string> Expr::symbol() const {
  if (!rep_ || rep_->terms.size() != 1) return std::nullopt;
  const auto& [monomial, coefficient] = *rep_->terms.begin();
  if (coefficient != 1 || monomial.size() != 1 || !monomial[0].is_symbol()) return std::nullopt;
  return monomial[0].symbol;
}

bool Expr::operator==(const Expr& other) const {
  if (rep_ == other.rep_) return rep_ != nullptr || value_ == other.value_;
  return rep_ && other.rep_ && rep_->terms == other.rep_->terms;
}

bool Expr::operator<(const Expr& other) const {
  if (!rep_ || !other.rep_) {
    if (!rep_ && !other.rep_) return value_ < other.value_;
    return !rep_;
  }
  return rep_ != other.rep_ && rep_->terms < other.rep_->terms;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (!a.rep_ && !b.rep_) return Expr(WrapAdd(a.value_, b.value_));
  Expr::Terms terms = a.terms();
  for (const auto& [monomial, coefficient] : b.terms()) AddTerm(terms, monomial, coefficient);
  return Expr(std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) { return a + b * Expr(-1); }

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.rep_ && !b.rep_) return Expr(WrapMul(a.value_, b.value_));
  Expr::Terms terms;
  for (const auto& [ma, ca] : a.terms()) {
    for (const auto& [mb, cb] : b.terms()) {
      Expr::Monomial product;
      product.reserve(ma.size() + mb.size());
      std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(product));
      AddTerm(terms, product, WrapMul(ca, cb));
    }
  }
  return Expr(std::move(terms));
}

namespace {

// a = quotient * divisor + rest where every term of `rest` fails to divide; the divisor is one term.
std::pair<Expr, Expr> DivideTerms(const Expr& a, const Expr& divisor);

}  // namespace

Expr Expr::FloorDiv(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return Expr(FloorDivInt(a.value_, b.value_));
  if (b == Expr(1)) return a;
  if (a == Expr(0)) return a;
  auto [quotient, rest] = DivideTerms(a, b);
  if (rest == Expr(0)) return quotient;
  if (rest.is_constant() && b.is_constant()) return quotient + FloorDiv(rest, b);
  // floordiv(q*b + r, b) = q + floordiv(r, b), whatever the signs, since b is positive.
  return quotient + Expr(Terms{{{Atom{"", Fn::kFloorDiv, {rest, b}}}, 1}});
}

Expr Expr::Mod(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return Expr(Apply(Fn::kMod, a.value_, b.value_));
  if (b == Expr(1)) return Expr(0);
  Expr rest = DivideTerms(a, b).second;
  if (rest == Expr(0)) return rest;
  if (rest.is_constant() && b.is_constant()) return Mod(rest, b);
  return Expr(Terms{{{Atom{"", Fn::kMod, {rest, b}}}, 1}});
}

Expr Expr::Max(const Expr& a, const Expr& b) {
  if (a == b) return a;
  Expr difference = a - b;
  if (auto c = difference.constant()) return *c > 0 ? a : b;
  return Expr(Terms{{{Atom{"", Fn::kMax, b < a ? std::vector{b, a} : std::vector{a, b}}}, 1}});
}

Expr Expr::Min(const Expr& a, const Expr& b) {
  if (a == b) return a;
  Expr difference = a - b;
  if (auto c = difference.constant()) return *c < 0 ? a : b;
  return Expr(Terms{{{Atom{"", Fn::kMin, b < a ? std::vector{b, a} : std::vector{a, b}}}, 1}});
}

namespace {

std::pair<Expr, Expr> DivideTerms(const Expr& a, const Expr& divisor) {
  const Expr::Terms& terms = divisor.terms();
  if (terms.size() != 1) {  // a sum divides only its own multiples; try the exact ones
    if (a == divisor) return {Expr(1), Expr(0)};
    return {Expr(0), a};
  }
  const auto& [dm, dc] = *terms.begin();
  Expr quotient, rest;
  for (const auto& [monomial, coefficient] : a.terms()) {
    Expr term = Expr(coefficient);
    for (const Expr::Atom& atom : monomial) {
      term = term * (atom.is_symbol() ? Expr::Symbol(atom.symbol) : Expr::FromAtom(atom));
    }
    bool divides = std::includes(monomial.begin(), monomial.end(), dm.begin(), dm.end());
    int64_t whole = divides ? FloorDivInt(coefficient, dc) : 0;
    if (whole == 0) {
      rest = rest + term;
      continue;
    }
    Expr::Monomial left;
    std::set_difference(monomial.begin(), monomial.end(), dm.begin(), dm.end(), std::back_inserter(left));
    Expr part = Expr(whole);
    for (const Expr::Atom& atom : left) part = part * Expr::FromAtom(atom);
    quotient = quotient + part;
    rest = rest + term - part * divisor;
  }
  return {quotient, rest};
}

}  // namespace

Expr Expr::FromAtom(const Atom& atom) { return Expr(Terms{{{atom}, 1}}); }

std::set<std::string> Expr::Symbols() const {
  std::set<std::string> names;
  if (!rep_) return names;
  for (const auto& [monomial, coefficient] : rep_->terms) {
    for (const Atom& atom : monomial) {
      if (atom.is_symbol()) names.insert(atom.symbol);
      for (const Expr& arg : atom.args) names.merge(arg.Symbols());
    }
  }
  return names;
}

int64_t Expr::Evaluate(const std::function<int64_t(const std::string&)>& value_of) const {
  if (!rep_) return value_;
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : rep_->terms) {
    int64_t product = coefficient;
    for (const Atom& atom : monomial) {
      int64_t value = atom.is_symbol()
                          ? value_of(atom.symbol)
                          : Apply(atom.fn, atom.args[0].Evaluate(value_of), atom.args[1].Evaluate(value_of));
      product = WrapMul(product, value);
    }
    sum = WrapAdd(sum, product);
  }
  return sum;
}

Expr Expr::Build(Fn fn, const Expr& a, const Expr& b) {
  switch (fn) {
    case Fn::kFloorDiv: return FloorDiv(a, b);
    case Fn::kMod: return Mod(a, b);
    case Fn::kMax: return Max(a, b);
    case Fn::kMin: return Min(a, b);
  }
  return Expr(0);
}

Expr Expr::Substitute(const std::map<std::string, Expr>& with) const {
  if (!rep_) return *this;
  Expr sum;
  for (const auto& [monomial, coefficient] : rep_->terms) {
    Expr product(coefficient);
    for (const Atom& atom : monomial) {
      if (atom.is_symbol()) {
        auto it = with.find(atom.symbol);
        product = product * (it == with.end() ? Symbol(atom.symbol) : it->second);
      } else {
        product = product * Build(atom.fn, atom.args[0].Substitute(with), atom.args[1].Substitute(with));
      }
    }
    sum = sum + product;
  }
  return sum;
}

std::string Expr::ToString() const {
  if (!rep_) return absl::StrCat(value_);
  std::string text;
  for (auto it = rep_->terms.rbegin(); it != rep_->terms.rend(); ++it) {
    auto [monomial, coefficient] = *it;
    bool negative = coefficient < 0;
    absl::StrAppend(&text, text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + "));
    uint64_t size = negative ? 0 - static_cast<uint64_t>(coefficient) : coefficient;
    if (monomial.empty() || size != 1) absl::StrAppend(&text, size, monomial.empty() ? "" : "*");
    absl::StrAppend(&text, absl::StrJoin(monomial, "*", [](std::string* out, const Atom& atom) {
      absl::StrAppend(out, atom.ToString());
    }));
  }
  return text;
}

namespace {

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

void Ranges::Set(const std::string& symbol, Expr min, std::optional<Expr> max) {
  int order = static_cast<int>(ranges_.size());
  ranges_.insert_or_assign(symbol, Range{std::move(min), std::move(max), order});
}

const Expr* Ranges::Min(const std::string& symbol) const {
  auto it = ranges_.find(symbol);
  return it == ranges_.end() ? nullptr : &it->second.min;
}

const Expr* Ranges::Max(const std::string& symbol) const {
  auto it = ranges_.find(symbol);
  return it == ranges_.end() || !it->second.max ? nullptr : &*it->second.max;
}

// Eliminates symbols from the last one to the first. In a polynomial linear in a symbol, a negative
// coefficient takes the symbol's maximum and a positive one its minimum; what is left is a constant
// whose sign decides. Sound: each step only lowers the value. floordiv atoms are bounded likewise.
bool Ranges::NonNegative(const Expr& e) const {
  Expr lower = e;
  for (int step = 0; step < 64; ++step) {
    if (auto c = lower.constant()) return *c >= 0;
    bool simple = true;
    for (const auto& [monomial, coefficient] : lower.terms()) {
      if (coefficient < 0) simple = false;
      for (const Expr::Atom& atom : monomial) {
        const Expr* min = atom.is_symbol() ? Min(atom.symbol) : nullptr;
        if (!min || !min->constant() || *min->constant() < 0) simple = false;
      }
    }
    if (simple) return true;
    // The symbol set last (loop variables before sizes), else an opaque atom.
    const Expr::Atom* pick = nullptr;
    int best = -1;
    for (const auto& [monomial, coefficient] : lower.terms()) {
      for (const Expr::Atom& atom : monomial) {
        auto it = atom.is_symbol() ? ranges_.find(atom.symbol) : ranges_.end();
        int order = atom.is_symbol() ? (it == ranges_.end() ? -1 : it->second.order) : 1 << 30;
        if (order > best) best = order, pick = &atom;
      }
    }
    if (!pick) return false;
    const Expr::Atom atom = *pick;
    // lower = with * atom + rest; only linear occurrences are handled.
    Expr with, rest;
    for (const auto& [monomial, coefficient] : lower.terms()) {
      int64_t n = std::count(monomial.begin(), monomial.end(), atom);
      if (n > 1) return false;
      Expr product(coefficient);
      bool skipped = false;
      for (const Expr::Atom& a : monomial) {
        if (a == atom && !skipped) {
          skipped = true;
          continue;
        }
        product = product * Expr::FromAtom(a);
      }
      (n == 1 ? with : rest) = (n == 1 ? with : rest) + product;
    }
    bool up = NonNegative(with);
    if (!up && !NonNegative(Expr(0) - with)) return false;
    std::optional<Expr> bound;
    if (atom.is_symbol()) {
      if (up) {
        if (const Expr* min = Min(atom.symbol)) bound = *min;
      } else if (const Expr* max = Max(atom.symbol)) {
        bound = *max;
      }
    } else if (atom.fn == Expr::Fn::kMod) {
      bound = up ? Expr(0) : atom.args[1] - 1;
    } else if (atom.fn == Expr::Fn::kFloorDiv) {
      if (up && NonNegative(atom.args[0])) bound = Expr(0);
      // floordiv(a, b) <= max(a) / b for a constant b and a bounded by constants
      if (!up) {
        if (auto high = UpperBound(atom.args[0]); high && atom.args[1].is_constant()) {
          bound = Expr::FloorDiv(Expr(*high), atom.args[1]);
        } else if (NonNegative(atom.args[0])) {
          bound = atom.args[0];
        }
      }
    } else if (atom.fn == Expr::Fn::kMax && up) {
      bound = atom.args[0];
    } else if (atom.fn == Expr::Fn::kMin && !up) {
      bound = atom.args[0];
    } else if (atom.fn == Expr::Fn::kMin && up && NonNegative(atom.args[0]) && NonNegative(atom.args[1])) {
      bound = Expr(0);
    }
    if (!bound) return false;
    lower = with * *bound + rest;
  }
  return false;
}

// The largest value as a constant, by the same elimination with all signs turned.
std::optional<int64_t> Ranges::UpperBound(const Expr& e) const {
  Expr upper = e;
  for (int step = 0; step < 64; ++step) {
    if (auto c = upper.constant()) return c;
    std::map<std::string, Expr> with;
    int best = -1;
    std::string pick;
    for (const std::string& s : upper.Symbols()) {
      auto it = ranges_.find(s);
      if (it == ranges_.end()) return std::nullopt;
      if (it->second.order > best) best = it->second.order, pick = s;
    }
    for (const auto& [monomial, coefficient] : upper.terms()) {
      for (const Expr::Atom& atom : monomial) {
        if (!atom.is_symbol()) return std::nullopt;
        const Expr* min = Min(atom.symbol);
        if (!min || !min->constant() || *min->constant() < 0) return std::nullopt;
      }
    }
    Expr next;
    for (const auto& [monomial, coefficient] : upper.terms()) {
      Expr product(coefficient);
      for (const Expr::Atom& atom : monomial) {
        if (atom.symbol != pick) {
          product = product * Expr::FromAtom(atom);
          continue;
        }
        const Expr* bound = coefficient > 0 ? Max(pick) : Min(pick);
        if (!bound) return std::nullopt;
        product = product * *bound;
      }
      next = next + product;
    }
    upper = next;
  }
  return std::nullopt;
}

// e = quotient * divisor + rest with 0 <= rest < divisor proved, or nothing.
std::optional<std::pair<Expr, Expr>> Ranges::Split(const Expr& e, const Expr& divisor) const {
  auto [quotient, rest] = DivideTerms(e, divisor);
  if (NonNegative(rest) && Less(rest, divisor)) return std::pair{quotient, rest};
  // A negative constant may have been split off the wrong way: 16*i + j - 1 with j >= 1 is covered
  // by the first test, -1 + 16*i by shifting one divisor over.
  if (NonNegative(rest + divisor) && Less(rest + divisor, divisor)) return std::pair{quotient - 1, rest + divisor};
  if (NonNegative(rest - divisor) && Less(rest - divisor, divisor)) return std::pair{quotient + 1, rest - divisor};
  return std::nullopt;
}

Expr Ranges::SimplifyAtom(const Expr::Atom& atom) const {
  if (atom.is_symbol()) return Expr::FromAtom(atom);
  Expr a = Simplify(atom.args[0]);
  Expr b = Simplify(atom.args[1]);
  switch (atom.fn) {
    case Expr::Fn::kFloorDiv:
      if (auto split = Split(a, b)) return split->first;
      return SimplifyNestedDiv(a, b);
    case Expr::Fn::kMod:
      if (auto split = Split(a, b)) return split->second;
      return SimplifyNestedMod(a, b);
    case Expr::Fn::kMax:
      if (LessEqual(a, b)) return b;
      if (LessEqual(b, a)) return a;
      break;
    case Expr::Fn::kMin:
      if (LessEqual(a, b)) return a;
      if (LessEqual(b, a)) return b;
      break;
  }
  return Expr::Build(atom.fn, a, b);
}

// floordiv(floordiv(x, m), n) is floordiv(x, m*n); floordiv(c*x + r, c*n) is floordiv(x, n) when
// 0 <= r < c.
Expr Ranges::SimplifyNestedDiv(const Expr& a, const Expr& b) const {
  if (a.terms().size() == 1) {
    const auto& [monomial, coefficient] = *a.terms().begin();
    if (coefficient == 1 && monomial.size() == 1 && !monomial[0].is_symbol() && monomial[0].fn == Expr::Fn::kFloorDiv) {
      return Simplify(Expr::FloorDiv(monomial[0].args[0], monomial[0].args[1] * b));
    }
  }
  if (auto common = CommonFactor(a, b)) {
    return Simplify(Expr::FloorDiv(common->first, common->second));
  }
  return Expr::FloorDiv(a, b);
}

// mod(c*x + r, c*n) is c*mod(x, n) + r when 0 <= r < c.
Expr Ranges::SimplifyNestedMod(const Expr& a, const Expr& b) const {
  if (auto common = CommonFactor(a, b)) {
    Expr factor = Expr::FloorDiv(b, common->second);
    Expr rest = a - common->first * factor;
    return Simplify(Expr::Mod(common->first, common->second)) * factor + rest;
  }
  return Expr::Mod(a, b);
}

// (x, n) with a = c*x + r, b = c*n, 0 <= r < c for a constant c > 1; nothing when there is none.
std::optional<std::pair<Expr, Expr>> Ranges::CommonFactor(const Expr& a, const Expr& b) const {
  if (b.terms().size() != 1) return std::nullopt;
  int64_t whole = b.terms().begin()->second;
  for (const auto& [monomial, coefficient] : a.terms()) {
    int64_t c = coefficient < 0 ? WrapMul(coefficient, -1) : coefficient;
    if (c <= 1 || monomial.empty() || whole % c != 0) continue;
    auto split = Split(a, Expr(c));
    if (!split) continue;
    return std::pair{split->first, Expr::FloorDiv(b, Expr(c))};
  }
  return std::nullopt;
}

namespace {

// The product of a monomial's atoms but the one at `skip`.
Expr Without(const Expr::Monomial& monomial, size_t skip) {
  Expr product(1);
  for (size_t i = 0; i < monomial.size(); ++i) {
    if (i != skip) product = product * Expr::FromAtom(monomial[i]);
  }
  return product;
}

bool Is(const Expr::Atom& atom, Expr::Fn fn) { return !atom.is_symbol() && atom.fn == fn; }

// c*mod(x, n) + c*n*floordiv(x, n) is c*x; c*mod(x, n) + c*n*mod(floordiv(x, n), k) is c*mod(x, n*k). Nothing when no
// two terms join.
std::optional<Expr> JoinOnce(const Expr& e) {
  for (const auto& [monomial, coefficient] : e.terms()) {
    for (size_t i = 0; i < monomial.size(); ++i) {
      if (!Is(monomial[i], Expr::Fn::kMod)) continue;
      const Expr &x = monomial[i].args[0], &n = monomial[i].args[1];
      Expr factor = Expr(coefficient) * Without(monomial, i);
      Expr quotient = Expr::FloorDiv(x, n);
      Expr low = factor * Expr::FromAtom(monomial[i]);
      Expr whole = factor * n * quotient;
      auto holds = [&](const Expr& part) {
        return std::all_of(part.terms().begin(), part.terms().end(), [&](const auto& term) {
          auto it = e.terms().find(term.first);
          return it != e.terms().end() && it->second == term.second;
        });
      };
      if (!whole.is_constant() && holds(whole)) return e - low - whole + factor * x;
      for (const auto& [other, c] : e.terms()) {
        for (const Expr::Atom& atom : other) {
          if (!Is(atom, Expr::Fn::kMod) || atom.args[0] != quotient) continue;
          Expr high = factor * n * Expr::FromAtom(atom);
          if (holds(high)) return e - low - high + factor * Expr::Mod(x, n * atom.args[1]);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Expr Ranges::Simplify(const Expr& e) const {
  if (e.is_constant()) return e;
  Expr sum;
  for (const auto& [monomial, coefficient] : e.terms()) {
    Expr product(coefficient);
    for (const Expr::Atom& atom : monomial) product = product * SimplifyAtom(atom);
    sum = sum + product;
  }
  bool joined = false;
  while (auto next = JoinOnce(sum)) sum = *next, joined = true;
  return joined ? Simplify(sum) : sum;
}

}  // namespace preheat::ir
