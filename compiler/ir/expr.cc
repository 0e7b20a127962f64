#include "compiler/ir/expr.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/expr_arithmetic.h"

namespace preheat::ir {
namespace {

int64_t Apply(Expr::Fn fn, int64_t a, int64_t b) {
  switch (fn) {
    case Expr::Fn::kFloorDiv: return FloorDivInt(a, b);
    case Expr::Fn::kMod: return b == 0 || b == -1 ? 0 : a - FloorDivInt(a, b) * b;
    case Expr::Fn::kMax: return std::max(a, b);
    case Expr::Fn::kMin: return std::min(a, b);
  }
  return 0;
}

void AddTerm(Expr::Terms& terms, const Expr::Monomial& monomial, int64_t coefficient) {
  if (coefficient == 0) return;
  auto [it, fresh] = terms.try_emplace(monomial, coefficient);
  if (fresh) return;
  it->second = WrapAdd(it->second, coefficient);
  if (it->second == 0) terms.erase(it);
}

}  // namespace

absl::string_view FnName(Expr::Fn fn) {
  switch (fn) {
    case Expr::Fn::kFloorDiv: return "floordiv";
    case Expr::Fn::kMod: return "mod";
    case Expr::Fn::kMax: return "max";
    case Expr::Fn::kMin: return "min";
  }
  return "";
}

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

}  // namespace preheat::ir
