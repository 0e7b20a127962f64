// Ranges of expr.h: what is proved of an expression.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "compiler/ir/expr.h"

namespace preheat::ir {

namespace {

// Whether no symbol can make a term negative: no minus, and minima that are constants from 0 on.
bool PlainlyNonNegative(const Expr& e, const Ranges& ranges) {
  for (const auto& [monomial, coefficient] : e.terms()) {
    if (coefficient < 0) return false;
    for (const Expr::Atom& atom : monomial) {
      const Expr* min = atom.is_symbol() ? ranges.Min(atom.symbol) : nullptr;
      if (!min || !min->constant() || *min->constant() < 0) return false;
    }
  }
  return true;
}

// What is to be eliminated: an opaque atom, else the symbol set last (loop variables before sizes); null where there is
// none that has a range.
const Expr::Atom* LastAtom(const Expr& e, absl::FunctionRef<int(const std::string&)> order_of) {
  const Expr::Atom* last = nullptr;
  int best = -1;
  for (const auto& [monomial, coefficient] : e.terms()) {
    for (const Expr::Atom& atom : monomial) {
      const int order = atom.is_symbol() ? order_of(atom.symbol) : 1 << 30;
      if (order > best) best = order, last = &atom;
    }
  }
  return last;
}

// e = with * atom + rest; nothing where the atom stands in a power.
std::optional<std::pair<Expr, Expr>> LinearIn(const Expr& e, const Expr::Atom& atom) {
  Expr with, rest;
  for (const auto& [monomial, coefficient] : e.terms()) {
    const int64_t n = std::count(monomial.begin(), monomial.end(), atom);
    if (n > 1) return std::nullopt;
    Expr product(coefficient);
    for (const Expr::Atom& a : monomial) {
      if (a != atom) product = product * Expr::FromAtom(a);
    }
    Expr& part = n == 1 ? with : rest;
    part = part + product;
  }
  return std::pair{with, rest};
}

// What an atom is never below; nothing when that is not known.
std::optional<Expr> LowerBound(const Expr::Atom& atom, const Ranges& ranges) {
  if (atom.is_symbol()) {
    const Expr* min = ranges.Min(atom.symbol);
    return min ? std::optional(*min) : std::nullopt;
  }
  auto positive = [&](int i) { return ranges.NonNegative(atom.args[i]); };
  switch (atom.fn) {
    case Expr::Fn::kMod: return Expr(0);
    case Expr::Fn::kFloorDiv: return positive(0) ? std::optional(Expr(0)) : std::nullopt;
    case Expr::Fn::kMax: return atom.args[0];
    case Expr::Fn::kMin: return positive(0) && positive(1) ? std::optional(Expr(0)) : std::nullopt;
  }
  return std::nullopt;
}

// What it is never above; `constant_bound` gives that of an expression as a constant.
std::optional<Expr> HigherBound(const Expr::Atom& atom, const Ranges& ranges,
                                absl::FunctionRef<std::optional<int64_t>(const Expr&)> constant_bound) {
  if (atom.is_symbol()) {
    const Expr* max = ranges.Max(atom.symbol);
    return max ? std::optional(*max) : std::nullopt;
  }
  switch (atom.fn) {
    case Expr::Fn::kMod: return atom.args[1] - 1;
    case Expr::Fn::kFloorDiv:
      // floordiv(a, b) <= max(a) / b for a constant b and a bounded by constants
      if (auto high = constant_bound(atom.args[0]); high && atom.args[1].is_constant())
        return Expr::FloorDiv(Expr(*high), atom.args[1]);
      return ranges.NonNegative(atom.args[0]) ? std::optional(atom.args[0]) : std::nullopt;
    case Expr::Fn::kMin: return atom.args[0];
    case Expr::Fn::kMax: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

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
  auto order_of = [&](const std::string& symbol) {
    auto it = ranges_.find(symbol);
    return it == ranges_.end() ? -1 : it->second.order;
  };
  auto high = [&](const Expr& x) { return UpperBound(x); };
  Expr lower = e;
  for (int step = 0; step < 64; ++step) {
    if (auto c = lower.constant()) return *c >= 0;
    if (PlainlyNonNegative(lower, *this)) return true;
    const Expr::Atom* atom = LastAtom(lower, order_of);
    if (!atom) return false;
    const auto linear = LinearIn(lower, *atom);
    if (!linear) return false;
    const auto& [with, rest] = *linear;
    const bool up = NonNegative(with);
    if (!up && !NonNegative(Expr(0) - with)) return false;
    const std::optional<Expr> bound = up ? LowerBound(*atom, *this) : HigherBound(*atom, *this, high);
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

}  // namespace preheat::ir
