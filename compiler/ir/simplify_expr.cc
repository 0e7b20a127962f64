// Ranges::Simplify of expr.h: divisions and remainders resolved where ranges allow it.

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/ir/expr.h"
#include "compiler/ir/expr_arithmetic.h"

namespace preheat::ir {

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
