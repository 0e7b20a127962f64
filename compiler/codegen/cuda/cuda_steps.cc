#include "compiler/codegen/cuda/cuda_steps.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

constexpr int64_t kVectorBytes = 16, kMostBytes = 32;  // one access, and a vector's of the widest type
constexpr int64_t kWord = 4;

// The widest memory type that a vector of so many bytes is made of.
std::pair<std::string, int64_t> MemoryType(int64_t bytes) {
  if (bytes % 16 == 0) return {"uint4", 16};
  if (bytes % 8 == 0) return {"uint2", 8};
  return {"unsigned", 4};
}

// A size or divisor as 32-bit text, if it is constant.
std::string Plain(const std::string& text) { return absl::StrReplaceAll(text, {{"L", "u"}}); }

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

CudaSteps::Span CudaSteps::SpanOf(const Piece& piece) {
  Span span{piece.body, piece.accumulations, {}, piece.begin, piece.end};
  for (const Store& store : piece.stores) span.stores.push_back(&store);
  return span;
}

// --- What changes along a vector ---

bool CudaSteps::DependsOn(int s, const std::set<int>& on, const std::string& variable) const {
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

// Statements of the body that differ between the elements of a vector.
std::set<int> CudaSteps::Varying(const Span& span, const std::string& inner) const {
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

// Whether e is the variable plus a multiple of `width`.
bool CudaSteps::WalksBy(const Expr& e, const std::string& variable, int64_t width) const {
  auto linear = schedule::LinearIn(e, variable);
  return linear && linear->first == Expr(1) && Divisible(linear->second, width);
}

bool CudaSteps::VectorLoad(int s, const std::set<int>& varying, const std::string& inner, int64_t width) const {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind != Stmt::Kind::kLoad || fetched_.count(s)) return false;
  if (stmt.predicate >= 0 && varying.count(stmt.predicate)) return false;
  for (const std::string& symbol : stmt.index.Symbols()) {
    if (symbol[0] == 'x' && varying.count(std::stoi(symbol.substr(1)))) return false;
  }
  if (width == 1) return varying.count(s) != 0;
  return width * ir::DTypeSize(k_.buffers[stmt.buffer].dtype) >= kWord && WalksBy(stmt.index, inner, width);
}

int64_t CudaSteps::ChooseWidth(const std::string& variable, const std::vector<const Span*>& spans,
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
  const int64_t most = std::min<int64_t>({8, kVectorBytes / narrowest, kMostBytes / widest, kVectorBytes / stored});
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

int64_t CudaSteps::BytesAStep(const Span& span, const std::string& inner, int64_t width) const {
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

std::string CudaSteps::FetchKey(int load, const std::string& inner, const Expr& begin, int64_t width) const {
  const Stmt& stmt = k_.stmts[load];
  Expr index = stmt.index.Substitute({{inner, begin + Expr::Symbol("at")}});
  return absl::StrCat(stmt.buffer, " ", index.ToString(), " ", width, " ", stmt.predicate);
}

// --- Walks ---

Expr CudaSteps::StepsOf(const Walk& walk, const Span& span) {
  Expr steps(1);
  for (size_t i = 0; i < walk.loops.size(); ++i) {
    Expr size = i + 1 == walk.loops.size() ? span.end - span.begin : walk.loops[i].size;
    if (i + 1 == walk.loops.size() && walk.inner_begin.empty() && walk.width > 1)
      size = Expr::FloorDiv(size, Expr(walk.width));
    steps = steps * size;
  }
  return steps;
}

// The number of steps; `small` when it is known to fit 31 bits, with what is added to it.
std::string CudaSteps::CountText(const Walk& walk, const Span& span, bool& small) {
  const Expr steps = StepsOf(walk, span);
  auto known = steps.constant();
  small = known && *known < INT32_MAX - (int64_t{1} << 22);
  return small ? absl::StrCat(*known, "u") : absl::StrCat("(", Index(steps), ")");
}

// Opens "if (guard) {" and defines the loops' variables, and `first`, of step p.
void CudaSteps::OpenStep(const Walk& walk, const Span& span, bool small, const std::string& guard) {
  OpenIf(guard);
  const bool divides = walk.loops.size() > 1;
  if (divides) Line(absl::StrCat(small ? "unsigned" : "long", " q = p;"));
  if (divides && !small) math_.insert("ph_quotient");
  for (size_t i = walk.loops.size(); i-- > 0;) {
    const bool last = i + 1 == walk.loops.size(), vectors = last && walk.inner_begin.empty();
    Expr size = last ? span.end - span.begin : walk.loops[i].size;
    if (vectors && walk.width > 1) size = Expr::FloorDiv(size, Expr(walk.width));
    std::string n = absl::StrCat("(", Index(size), ")"), at = divides ? "q" : "p";
    if (small && size.is_constant()) n = Plain(n);
    if (divides && i > 0) {
      Line(absl::StrCat("const ", small ? "unsigned" : "long", " quotient", i, " = ",
                        small ? absl::StrCat("q / ", n) : absl::StrCat("ph_quotient(q, ", n, ")"), ";"));
      at = absl::StrCat("q - quotient", i, " * ", n);
    }
    std::string value = absl::StrCat("(long)(", at, ")");
    if (vectors && walk.width > 1) absl::StrAppend(&value, " * ", walk.width);
    if (last && span.begin != Expr(0)) value = absl::StrCat("(", Index(span.begin), ") + ", value);
    Line(absl::StrCat("const long ", vectors && walk.width > 1 ? "first" : walk.loops[i].var, " = ", value, ";"));
    if (divides && i > 0) Line(absl::StrCat("q = quotient", i, ";"));
  }
}

// Statements of the body that the fetches' addresses and conditions come from, in order.
std::set<int> CudaSteps::NeededBy(const std::vector<Fetch>& fetches, const Span& span) const {
  const std::set<int> body(span.body.begin(), span.body.end());
  std::set<int> needed;
  std::vector<int> stack;
  auto want = [&](int s) {
    if (body.count(s) && needed.insert(s).second) stack.push_back(s);
  };
  auto want_all = [&](int s) {
    const Stmt& stmt = k_.stmts[s];
    for (int arg : stmt.args) want(arg);
    if (stmt.predicate >= 0) want(stmt.predicate);
    auto symbols = stmt.index.Symbols();
    for (const Expr& e : stmt.conditions) symbols.merge(e.Symbols());
    for (const std::string& symbol : symbols) {
      if (symbol[0] == 'x') want(std::stoi(symbol.substr(1)));
    }
  };
  for (const Fetch& fetch : fetches) want_all(fetch.load);
  while (!stack.empty()) {
    int s = stack.back();
    stack.pop_back();
    want_all(s);
  }
  return needed;
}

std::string CudaSteps::PackType(DType dtype, int64_t width) {
  std::string type(StorageType(dtype));
  std::string name = absl::StrCat("V", width, "_", absl::StrReplaceAll(type, {{" ", "_"}}));
  types_.insert(absl::StrCat("struct ", name, " { ", type, " x[", width, "]; };\n"));
  return name;
}

// What a thread keeps of a vector: the words that memory has, so that half of a register is not taken for each 16 bits.
std::string CudaSteps::WordsType(int64_t bytes) {
  std::string name = absl::StrCat("W", bytes / kWord);
  types_.insert(absl::StrCat("struct ", name, " { unsigned w[", bytes / kWord, "]; };\n"));
  return name;
}

// Element u of a fetched vector, or the one element of a fetched scalar.
std::string CudaSteps::FetchedElement(const std::string& name, DType dtype, int64_t width) {
  if (width == 1) return absl::StrCat(name, "[i]");
  const std::string w = absl::StrCat(name, "[i].w"), type(StorageType(dtype));
  switch (ir::DTypeSize(dtype)) {
    case 1: return absl::StrCat("(", type, ")(", w, "[u >> 2] >> (u & 3) * 8)");
    case 2: return absl::StrCat("(", type, ")(", w, "[u >> 1] >> (u & 1) * 16)");
    case 4: return absl::StrCat("__builtin_bit_cast(", type, ", ", w, "[u])");
    default:
      return absl::StrCat("__builtin_bit_cast(", type, ", (unsigned long)", w, "[2 * u] | (unsigned long)", w,
                          "[2 * u + 1] << 32)");
  }
}

std::string CudaSteps::Guard(const Stmt& load) const {
  return load.predicate >= 0 ? absl::StrCat("if (", Ref(load.predicate), ") ") : "";
}

// One vector into registers; memory is read in the compiler's own vector types, which it never takes apart.
void CudaSteps::EmitFetch(const Walk& walk, const Fetch& fetch, bool aligned) {
  const Stmt& stmt = k_.stmts[fetch.load];
  const DType dtype = k_.buffers[stmt.buffer].dtype;
  const int64_t bytes = walk.width * ir::DTypeSize(dtype);
  const std::string type = PackType(dtype, walk.width);
  if (walk.width == 1)
    return Line(absl::StrCat(Guard(stmt), fetch.name, "[i] = b", stmt.buffer, "[", Index(stmt.index), "];"));
  const std::string from =
      absl::StrCat("b", stmt.buffer, " + (", Index(stmt.index.Substitute({{walk.inner, Expr::Symbol("first")}})), ")");
  const std::string words = WordsType(bytes);
  if (!aligned) {
    OpenIf(stmt.predicate >= 0 ? Ref(stmt.predicate) : "");
    Line(absl::StrCat(type, " t;"));
    Line(absl::StrCat("for (int u = 0; u < ", walk.width, "; ++u) t.x[u] = (", from, ")[u];"));
    Line(absl::StrCat(fetch.name, "[i] = __builtin_bit_cast(", words, ", t);"));
    Close();
    return;
  }
  aligned_[stmt.buffer] = std::max(aligned_[stmt.buffer], std::min<int64_t>(16, bytes));
  auto [memory, size] = MemoryType(bytes);
  std::string wide = absl::StrCat("M", bytes);
  std::vector<std::string> fields, parts;
  for (int64_t n = 0; n * size < bytes; ++n) {
    fields.push_back(absl::StrCat("m", n));
    parts.push_back(absl::StrCat("((const ", memory, "*)(", from, "))[", n, "]"));
  }
  types_.insert(absl::StrCat("struct ", wide, " { ", memory, " ", absl::StrJoin(fields, ", "), "; };\n"));
  Line(absl::StrCat(Guard(stmt), fetch.name, "[i] = __builtin_bit_cast(", words, ", ", wide, "{",
                    absl::StrJoin(parts, ", "), "});"));
}

// What a later stage computes from a kept row it computes again: the compiler is not to keep the results of the earlier
// one, which take more registers than the row.
void CudaSteps::EmitOpaque(const Walk& walk, const std::string& name, DType dtype) {
  const int64_t bytes = walk.width * ir::DTypeSize(dtype);
  if (walk.width == 1) return;
  Line("#ifdef __CUDACC_RTC__");
  Line("#pragma unroll");
  Line(absl::StrCat("for (int i = 0; i < ", walk.in_flight, "; ++i) {"));
  for (int64_t k = 0; k < bytes / kWord; ++k)
    Line(absl::StrCat("  asm volatile(\"\" : \"+r\"(", name, "[i].w[", k, "]));"));
  Line("}");
  Line("#endif");
}

// Where the vectors begin, when all steps' are the same.
void CudaSteps::DefineInner(const Walk& walk) {
  if (walk.inner_begin.empty()) return;
  Line(absl::StrCat("const long ", walk.width > 1 ? "first" : walk.inner, " = ", walk.inner_begin, ";"));
}

// All loads by vector of all steps in flight, before anything else.
void CudaSteps::EmitFetches(const Walk& walk, const Span& span, bool small, const std::string& guard,
                            const std::vector<Fetch>& fetches) {
  const std::set<int> needed = NeededBy(fetches, span);
  for (bool aligned : {true, false}) {
    if (walk.width == 1 && !aligned) break;
    walk.width == 1 ? OpenIf("") : Open(aligned ? "if (aligned)" : "else");
    Line("#pragma unroll");
    Open(absl::StrCat("for (int i = 0; i < ", walk.in_flight, "; ++i)"));
    Line(absl::StrCat("const ", small ? "unsigned" : "long", " p = base + i * ", walk.stride, ";"));
    OpenStep(walk, span, small, guard);
    DefineInner(walk);
    for (int s : needed) Define(s);
    for (const Fetch& fetch : fetches) EmitFetch(walk, fetch, aligned);
    Close();
    Close();
    Close();
  }
}

// Word k (four bytes) of the pack `name`. 16-bit floats wait there as f32 and are rounded two at a time.
std::string CudaSteps::Word(const std::string& name, DType dtype, int64_t k) {
  auto element = [&](int64_t i) { return absl::StrCat(name, ".x[", i, "]"); };
  if (IsHalf(dtype)) {
    const char* f = dtype == DType::kBF16 ? "ph_two_bf16" : "ph_two_f16";
    math_.insert(f);
    return absl::StrCat(f, "(", element(2 * k), ", ", element(2 * k + 1), ")");
  }
  switch (ir::DTypeSize(dtype)) {
    case 1:
      return absl::StrCat("(unsigned)(unsigned char)", element(4 * k), " | (unsigned)(unsigned char)",
                          element(4 * k + 1), " << 8 | (unsigned)(unsigned char)", element(4 * k + 2),
                          " << 16 | (unsigned)(unsigned char)", element(4 * k + 3), " << 24");
    case 2:
      return absl::StrCat("(unsigned)(unsigned short)", element(2 * k), " | (unsigned)(unsigned short)",
                          element(2 * k + 1), " << 16");
    case 4: return absl::StrCat("__builtin_bit_cast(unsigned, ", element(k), ")");
    default:
      return absl::StrCat("(unsigned)(__builtin_bit_cast(unsigned long, ", element(k / 2), ")", k % 2 ? " >> 32" : "",
                          ")");
  }
}

void CudaSteps::StoreVector(const Store& store, size_t number, int64_t width) {
  const DType dtype = k_.buffers[store.buffer].dtype;
  const int64_t bytes = width * ir::DTypeSize(dtype);
  aligned_[store.buffer] = std::max(aligned_[store.buffer], std::min<int64_t>(16, bytes));
  auto [memory, size] = MemoryType(bytes);
  const std::string name = absl::StrCat("o", number);
  OpenIf("aligned");
  for (int64_t n = 0; n * size < bytes; ++n) {
    std::vector<std::string> words;
    for (int64_t k = 0; k < size / kWord; ++k) words.push_back(Word(name, dtype, n * size / kWord + k));
    std::string value = size == kWord ? words[0] : absl::StrCat(memory, "{", absl::StrJoin(words, ", "), "}");
    Line(absl::StrCat("((", memory, "*)to", number, ")[", n, "] = ", value, ";"));
  }
  Close();
  Open("else");
  const std::string element = absl::StrCat(name, ".x[u]");
  Line(absl::StrCat("for (int u = 0; u < ", width, "; ++u) to", number,
                    "[u] = ", IsHalf(dtype) ? StoreText(element, DType::kF32, dtype, math_) : element, ";"));
  Close();
}

// What a step computes, accumulates and stores, its vectors being in registers.
void CudaSteps::EmitElements(const Walk& walk, const Span& span) {
  const std::set<int> varying = Varying(span, walk.inner);
  const bool vectors = walk.width > 1;
  varying_ = varying;
  for (int s : span.body) {
    if (!varying.count(s)) Define(s);
  }
  std::vector<const Store*> packed;
  for (const Store* store : span.stores) {
    if (vectors && walk.width * ir::DTypeSize(k_.buffers[store->buffer].dtype) >= kWord &&
        WalksBy(store->index, walk.inner, walk.width))
      packed.push_back(store);
  }
  for (size_t n = 0; n < packed.size(); ++n) {
    DType dtype = k_.buffers[packed[n]->buffer].dtype;
    Line(absl::StrCat(PackType(IsHalf(dtype) ? DType::kF32 : dtype, walk.width), " o", n, ";"));
  }
  if (vectors) {
    Line("#pragma unroll");
    Open(absl::StrCat("for (int u = 0; u < ", walk.width, "; ++u)"));
    Line(absl::StrCat("const long ", walk.inner, " = first + u;"));
    Line(absl::StrCat("(void)", walk.inner, ";"));
  }
  for (int s : span.body) {
    if (varying.count(s)) Define(s);
  }
  for (const auto& [a, value] : span.accumulations) Accumulate(a, Ref(value), Index(k_.accumulators[a].position));
  const std::string guard = walk.live.empty() ? "" : absl::StrCat("if (", walk.live, ") ");
  for (const Store* store : span.stores) {
    auto it = std::find(packed.begin(), packed.end(), store);
    if (it == packed.end()) {
      Line(guard + StoreStatement(*store));
    } else {
      const bool half = IsHalf(k_.buffers[store->buffer].dtype);
      Line(absl::StrCat("o", it - packed.begin(), ".x[u] = ", half ? Ref(Unrounded(*store)) : Stored(*store), ";"));
    }
  }
  if (vectors) Close();
  if (packed.empty()) return;
  OpenIf(walk.live);
  for (size_t n = 0; n < packed.size(); ++n) {
    Line(absl::StrCat(std::string(StorageType(k_.buffers[packed[n]->buffer].dtype)), "* to", n, " = b",
                      packed[n]->buffer, " + (",
                      Index(packed[n]->index.Substitute({{walk.inner, Expr::Symbol("first")}})), ");"));
    StoreVector(*packed[n], n, walk.width);
  }
  Close();
}

void CudaSteps::EmitWalk(const Walk& walk, const Span& span) {
  const std::set<int> varying = Varying(span, walk.inner);
  std::vector<Fetch> fetches;
  std::map<std::string, std::string> local;
  std::set<std::string> used;
  std::set<int> named;
  for (int s : span.body) {
    if (!VectorLoad(s, varying, walk.inner, walk.width)) continue;
    std::string key = absl::StrCat(FetchKey(s, walk.inner, span.begin, walk.width), " ", walk.in_flight, " ",
                                   StepsOf(walk, span).ToString());
    auto& known = walk.once ? resident_ : local;
    auto [it, fresh] = known.try_emplace(key, absl::StrCat("w", fetched_arrays_));
    const DType dtype = k_.buffers[k_.stmts[s].buffer].dtype;
    if (fresh) {
      ++fetched_arrays_;
      fetches.push_back({s, it->second});
    } else if (walk.once && !used.count(it->second)) {
      EmitOpaque(walk, it->second, dtype);
    }
    used.insert(it->second);
    fetched_[s] = FetchedElement(it->second, dtype, walk.width);
    named.insert(s);
  }
  bool small = false;
  const std::string count = CountText(walk, span, small), type = small ? "unsigned" : "long";
  auto declare = [&] {
    for (const Fetch& fetch : fetches) {
      const Stmt& stmt = k_.stmts[fetch.load];
      const DType dtype = k_.buffers[stmt.buffer].dtype;
      const std::string kept =
          walk.width == 1 ? std::string(StorageType(dtype)) : WordsType(walk.width * ir::DTypeSize(dtype));
      Line(absl::StrCat(kept, " ", fetch.name, "[", walk.in_flight, "]", stmt.predicate >= 0 ? " = {}" : "", ";"));
    }
  };
  if (walk.once) {
    declare();
    OpenIf("");
    Line(absl::StrCat("const ", type, " base = ", walk.lane, ";"));
  } else {
    std::string round = absl::StrCat(walk.in_flight, " * ", walk.stride);
    if (walk.unrolled) Line("#pragma unroll");
    Open(absl::StrCat("for (", type, " base = ", walk.lane, "; base < ", count, "; base += ", round, ")"));
    declare();
  }
  std::string guard = absl::StrCat("p < ", count);
  auto steps = StepsOf(walk, span).constant();
  if (!walk.once && walk.in_flight == 1) guard = "";
  if (walk.once && steps && walk.stride == absl::StrCat(*steps / walk.in_flight) && *steps % walk.in_flight == 0)
    guard = "";
  if (!fetches.empty()) EmitFetches(walk, span, small, guard, fetches);
  Line("#pragma unroll");
  Open(absl::StrCat("for (int i = 0; i < ", walk.in_flight, "; ++i)"));
  Line(absl::StrCat("const ", type, " p = base + i * ", walk.stride, ";"));
  OpenStep(walk, span, small, guard);
  DefineInner(walk);
  EmitElements(walk, span);
  Close();
  Close();
  Close();
  for (int s : named) fetched_.erase(s);
}

}  // namespace preheat::codegen
