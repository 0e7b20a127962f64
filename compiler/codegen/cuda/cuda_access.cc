#include "compiler/codegen/cuda/cuda_access.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int64_t kMostWidth = 8;                      // elements of a vector
constexpr int64_t kVectorBytes = 16, kMostBytes = 32;  // one access, and a vector's of the widest type

}  // namespace

bool Divisible(const Expr& e, int64_t n) {
  for (const auto& [monomial, coefficient] : e.terms()) {
    if (coefficient % n == 0) continue;
    if (monomial.size() != 1 || monomial[0].is_symbol()) return false;
    const Expr::Atom& atom = monomial[0];
    if (atom.fn != Expr::Fn::kMin && atom.fn != Expr::Fn::kMax) return false;
    if (!Divisible(atom.args[0], n) || !Divisible(atom.args[1], n)) return false;
  }
  return true;
}

CudaAccess::Span CudaAccess::SpanOf(const Piece& piece) {
  Span span{piece.body, piece.accumulations, {}, piece.begin, piece.end};
  for (const Store& store : piece.stores) span.stores.push_back(&store);
  return span;
}

bool CudaAccess::DependsOn(int s, const std::set<int>& on, const std::string& variable) const {
  const Stmt& stmt = k_.stmts[s];
  auto in_expr = [&](const Expr& e) {
    for (const std::string& symbol : e.Symbols()) {
      if (symbol == variable || (symbol[0] == 'x' && on.count(std::stoi(symbol.substr(1))))) return true;
    }
    return false;
  };
  if (in_expr(stmt.index) || in_expr(stmt.bound)) return true;
  if (std::any_of(stmt.conditions.begin(), stmt.conditions.end(), in_expr)) return true;
  if (stmt.predicate >= 0 && on.count(stmt.predicate)) return true;
  return std::any_of(stmt.args.begin(), stmt.args.end(), [&](int arg) { return on.count(arg) != 0; });
}

std::set<int> CudaAccess::Varying(const Span& span, const std::string& inner) const {
  std::set<int> varying = arrays_;
  if (!lanes_.empty()) {
    for (size_t s = 0; s < k_.stmts.size(); ++s) {
      if (k_.stmts[s].kind == Stmt::Kind::kResult) varying.insert(static_cast<int>(s));
    }
  }
  for (int s : span.body) {
    if (DependsOn(s, varying, inner)) varying.insert(s);
  }
  return varying;
}

bool CudaAccess::WalksBy(const Expr& e, const std::string& variable, int64_t width) const {
  auto linear = schedule::LinearIn(e, variable);
  return linear && linear->first == Expr(1) && Divisible(linear->second, width);
}

bool CudaAccess::VectorLoad(int s, const std::set<int>& varying, const std::string& inner, int64_t width) const {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind != Stmt::Kind::kLoad || fetched_.count(s)) return false;
  if (stmt.predicate >= 0 && varying.count(stmt.predicate)) return false;
  for (const std::string& symbol : stmt.index.Symbols()) {
    if (symbol[0] == 'x' && varying.count(std::stoi(symbol.substr(1)))) return false;
  }
  if (width == 1) return varying.count(s) != 0;
  return width * ir::DTypeSize(k_.buffers[stmt.buffer].dtype) >= kWord && WalksBy(stmt.index, inner, width);
}

int64_t CudaAccess::ChooseWidth(const std::string& variable, const std::vector<const Span*>& spans,
                                const std::vector<Expr>& multiples) const {
  if (variable.empty()) return 1;
  std::vector<std::pair<Expr, int64_t>> accesses;  // along the variable: index, bytes of an element
  int64_t stored = 1;                              // bytes of the widest one that is stored
  for (const Span* span : spans) {
    const std::set<int> varying = Varying(*span, variable);
    for (int s : span->body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind != Stmt::Kind::kLoad || fetched_.count(s) || !WalksBy(stmt.index, variable, 1)) continue;
      if (stmt.predicate >= 0 && varying.count(stmt.predicate)) continue;
      accesses.emplace_back(stmt.index, ir::DTypeSize(k_.buffers[stmt.buffer].dtype));
    }
    for (const Store* store : span->stores) {
      if (!WalksBy(store->index, variable, 1)) continue;
      accesses.emplace_back(store->index, ir::DTypeSize(k_.buffers[store->buffer].dtype));
      stored = std::max(stored, accesses.back().second);
    }
  }
  if (accesses.empty()) return 1;
  int64_t narrowest = 16, widest = 1;
  for (const auto& [index, bytes] : accesses)
    (void)index, narrowest = std::min(narrowest, bytes), widest = std::max(widest, bytes);
  auto fits = [&](int64_t width) {
    return std::all_of(multiples.begin(), multiples.end(), [&](const Expr& e) { return Divisible(e, width); });
  };
  // Two accesses a vector leave half of each sector to the next thread's: loads find the rest in the first-level cache,
  // stores do not.
  const int64_t most = std::min<int64_t>({Turned("vector", 2, kMostWidth).value_or(kMostWidth),
                                          kVectorBytes / narrowest, kMostBytes / widest, kVectorBytes / stored});
  int64_t some = 1;
  for (int64_t width = most; width >= 2; width /= 2) {
    if (!fits(width)) continue;
    const auto good = std::count_if(accesses.begin(), accesses.end(), [&](const auto& access) {
      return width * access.second >= kWord && WalksBy(access.first, variable, width);
    });
    if (good == static_cast<int64_t>(accesses.size())) return width;
    if (good > 0 && some == 1) some = width;
  }
  return some;
}

int64_t CudaAccess::BytesAStep(const Span& span, const std::string& inner, int64_t width) const {
  const std::set<int> varying = Varying(span, inner);
  std::map<std::string, int64_t> keys;
  for (int s : span.body) {
    if (VectorLoad(s, varying, inner, width))
      keys[FetchKey(s, inner, span.begin, width)] =
          std::max(kWord, width * ir::DTypeSize(k_.buffers[k_.stmts[s].buffer].dtype));
  }
  int64_t bytes = 0;
  for (const auto& [key, more] : keys) (void)key, bytes += more;
  return bytes;
}

std::string CudaAccess::FetchKey(int load, const std::string& inner, const Expr& begin, int64_t width) const {
  const Stmt& stmt = k_.stmts[load];
  Expr index = stmt.index.Substitute({{inner, begin + Expr::Symbol("at")}});
  return absl::StrCat(stmt.buffer, " ", index.ToString(), " ", width, " ", stmt.predicate);
}

bool CudaAccess::VectorStore(const Store& store, const std::string& inner, int64_t width) const {
  return width > 1 && width * ir::DTypeSize(k_.buffers[store.buffer].dtype) >= kWord &&
         WalksBy(store.index, inner, width);
}

}  // namespace preheat::codegen
