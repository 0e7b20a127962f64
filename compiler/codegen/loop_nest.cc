#include "compiler/codegen/loop_nest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

void ForEachAtom(const Expr& e, const std::function<void(const Expr::Atom&)>& visit) {
  for (const auto& [monomial, coefficient] : e.terms()) {
    for (const Expr::Atom& atom : monomial) {
      visit(atom);
      for (const Expr& arg : atom.args) ForEachAtom(arg, visit);
    }
  }
}

// Divisors of each variable that stands alone under floordiv or mod.
std::map<std::string, std::set<Expr>> Divisors(const std::vector<Expr>& exprs) {
  std::map<std::string, std::set<Expr>> divisors;
  for (const Expr& e : exprs) {
    ForEachAtom(e, [&](const Expr::Atom& atom) {
      if (atom.is_symbol() || atom.fn == Expr::Fn::kMax || atom.fn == Expr::Fn::kMin) return;
      if (auto name = atom.args[0].symbol()) divisors[*name].insert(atom.args[1]);
    });
  }
  return divisors;
}

// The factors of `size` from the outermost to the innermost that make every divisor a product of inner ones; empty when
// they do not divide each other.
std::vector<Expr> Factors(const Expr& size, std::vector<Expr> divisors) {
  std::sort(divisors.begin(), divisors.end());
  std::vector<Expr> factors;
  Expr below(1);
  for (const Expr& d : divisors) {
    if (d == size) continue;
    if (Expr::Mod(d, below) != Expr(0)) return {};
    factors.push_back(Expr::FloorDiv(d, below));
    below = d;
  }
  if (below == Expr(1) || Expr::Mod(size, below) != Expr(0)) return {};
  factors.push_back(Expr::FloorDiv(size, below));
  std::reverse(factors.begin(), factors.end());
  return factors;
}

}  // namespace

std::vector<Expr> FactorsOf(const Loop& loop, const std::vector<Expr>& exprs) {
  std::map<std::string, std::set<Expr>> divisors = Divisors(exprs);
  auto it = divisors.find(loop.var);
  return it == divisors.end() ? std::vector<Expr>{} : Factors(loop.size, {it->second.begin(), it->second.end()});
}

LoopNest::LoopNest(std::vector<Loop> loops) : loops_(std::move(loops)) {
  for (const Loop& loop : loops_) {
    sizes_.push_back(loop.size);
    index_.push_back(Expr::Symbol(loop.var));
  }
}

void LoopNest::Replace(size_t loop, std::vector<Loop> with, const Expr& value) {
  std::map<std::string, Expr> map = {{loops_[loop].var, value}};
  for (Expr& e : index_) e = e.Substitute(map);
  loops_.erase(loops_.begin() + loop);
  loops_.insert(loops_.begin() + loop, with.begin(), with.end());
}

bool LoopNest::Split(const std::vector<Expr>& exprs) {
  std::map<std::string, std::set<Expr>> divisors = Divisors(exprs);
  bool changed = false;
  for (size_t i = 0; i < loops_.size(); ++i) {
    auto it = divisors.find(loops_[i].var);
    if (it == divisors.end()) continue;
    std::vector<Expr> factors = Factors(loops_[i].size, {it->second.begin(), it->second.end()});
    if (factors.size() < 2) continue;
    std::vector<Loop> loops;
    Expr value;
    for (const Expr& factor : factors) {
      loops.push_back({absl::StrCat(loops_[i].var, "_", fresh_++), factor});
      value = value * factor + Expr::Symbol(loops.back().var);
    }
    size_t added = loops.size() - 1;
    Replace(i, std::move(loops), value);
    i += added;
    changed = true;
  }
  return changed;
}

bool LoopNest::Join(std::vector<Expr> exprs) {
  bool changed = false;
  for (size_t i = loops_.size(); i-- > 1;) {
    const Loop outer = loops_[i - 1], inner = loops_[i];
    bool in_step = std::all_of(exprs.begin(), exprs.end(), [&](const Expr& e) {
      auto v = schedule::LinearIn(e, outer.var);
      auto w = schedule::LinearIn(e, inner.var);
      return v && w && v->first == w->first * inner.size;
    });
    if (!in_step) continue;
    Loop joined{absl::StrCat(outer.var, "_", fresh_++), outer.size * inner.size};
    Expr f = Expr::Symbol(joined.var);
    std::map<std::string, Expr> map = {{outer.var, Expr(0)}, {inner.var, f}};
    for (Expr& e : exprs) e = e.Substitute(map);
    Replace(i, {}, Expr::Mod(f, inner.size));
    Replace(i - 1, {joined}, Expr::FloorDiv(f, inner.size));
    changed = true;
  }
  return changed;
}

std::vector<Expr> LoopNest::Cuts(const std::vector<Expr>& conditions, size_t most) const {
  if (loops_.empty() || !loops_.back().size.is_constant()) return {};
  int64_t size = *loops_.back().size.constant();
  std::set<int64_t> cuts;
  for (const Expr& e : conditions) {
    auto linear = schedule::LinearIn(e, loops_.back().var);
    if (!linear || linear->first == Expr(0)) continue;
    auto a = linear->first.constant();
    auto b = linear->second.constant();
    if (!a || !b || (*a != 1 && *a != -1)) return {};
    int64_t cut = *a == 1 ? -*b : *b + 1;
    if (cut > 0 && cut < size) cuts.insert(cut);
  }
  if (cuts.size() > most) return {};
  return {cuts.begin(), cuts.end()};
}

}  // namespace preheat::codegen
