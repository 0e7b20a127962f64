#include "compiler/codegen/cuda/cuda_steps.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

constexpr int64_t kMostWrittenOut = 24;  // steps of a thread, where they could be rows of steps

// A size or divisor as 32-bit text, if it is constant.
std::string Plain(const std::string& text) { return absl::StrReplaceAll(text, {{"L", "u"}}); }

}  // namespace

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

CudaSteps::Count CudaSteps::CountOf(const Walk& walk, const Span& span) {
  const Expr steps = StepsOf(walk, span);
  auto known = steps.constant();
  const bool small = known && *known < INT32_MAX - (int64_t{1} << 22);  // with what is added to it
  return {small ? absl::StrCat(*known, "u") : absl::StrCat("(", Index(steps), ")"), small};
}

// Under which condition a step is done; empty: always.
std::string CudaSteps::GuardOf(const Walk& walk, const Span& span, const Count& count) const {
  if (!walk.once && walk.in_flight == 1) return "";
  auto steps = StepsOf(walk, span).constant();
  const bool dealt_evenly = walk.once && !walk.more && steps && walk.stride == absl::StrCat(*steps / walk.in_flight) &&
                            *steps % walk.in_flight == 0;
  return dealt_evenly ? "" : absl::StrCat("p < ", count.text);
}

// The loops' variables, and `first`, of step p.
void CudaSteps::DefineLoops(const Walk& walk, const Span& span, bool small) {
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

// The steps in flight, each of which is "p".
void CudaSteps::OpenSteps(const Walk& walk, const Span& span, const Count& count, const std::string& guard) {
  Line("#pragma unroll");
  Open(absl::StrCat("for (int i = 0; i < ", walk.in_flight, "; ++i)"));
  Line(absl::StrCat("const ", count.type(), " p = base + i * ", walk.stride, ";"));
  OpenIf(guard);
  DefineLoops(walk, span, count.small);
  if (!walk.inner_begin.empty())
    Line(absl::StrCat("const long ", walk.width > 1 ? "first" : walk.inner, " = ", walk.inner_begin, ";"));
}

void CudaSteps::CloseSteps() {
  Close();
  Close();
}

// --- Loads ---

// The loads by vector that are not in registers yet, each memory once; `fetched_` says where all of them are.
std::vector<CudaSteps::Fetch> CudaSteps::PlanFetches(const Walk& walk, const Span& span) {
  const std::set<int> varying = Varying(span, walk.inner);
  std::vector<Fetch> fetches;
  std::map<std::string, std::string> local;
  std::set<std::string> used;
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
      MakeOpaque(it->second, dtype, walk.width, walk.in_flight);
    }
    used.insert(it->second);
    fetched_[s] = KeptElement(it->second, dtype, walk.width);
  }
  return fetches;
}

void CudaSteps::DeclareFetches(const Walk& walk, const std::vector<Fetch>& fetches) {
  for (const Fetch& fetch : fetches) {
    const Stmt& stmt = k_.stmts[fetch.load];
    Line(absl::StrCat(KeptType(k_.buffers[stmt.buffer].dtype, walk.width), " ", fetch.name, "[", walk.in_flight, "]",
                      stmt.predicate >= 0 ? " = {}" : "", ";"));
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

// All loads by vector of all steps in flight, before anything else.
void CudaSteps::EmitFetches(const Walk& walk, const Span& span, const Count& count, const std::string& guard,
                            const std::vector<Fetch>& fetches, Aligned aligned) {
  if (fetches.empty()) return;
  const std::set<int> needed = NeededBy(fetches, span);
  const bool known = walk.width == 1 || aligned != Aligned::kUnknown;
  for (bool wide : {true, false}) {
    if (known && wide != (aligned != Aligned::kNo)) continue;
    known ? OpenIf("") : Open(wide ? "if (aligned)" : "else");
    OpenSteps(walk, span, count, guard);
    for (int s : needed) Define(s);
    for (const Fetch& fetch : fetches) LoadVector(k_.stmts[fetch.load], fetch.name, walk.inner, walk.width, wide);
    CloseSteps();
    Close();
  }
}

// --- Walks ---

// What a step computes, accumulates and stores, its vectors being in registers.
void CudaSteps::EmitElements(const Walk& walk, const Span& span) {
  varying_ = Varying(span, walk.inner);
  const bool vectors = walk.width > 1;
  for (int s : span.body) {
    if (!varying_.count(s)) Define(s);
  }
  std::vector<const Store*> packed;
  for (const Store* store : span.stores) {
    if (!VectorStore(*store, walk.inner, walk.width)) continue;
    DeclarePack(*store, packed.size(), walk.width);
    packed.push_back(store);
  }
  if (vectors) {
    Line("#pragma unroll");
    Open(absl::StrCat("for (int u = 0; u < ", walk.width, "; ++u)"));
    Line(absl::StrCat("const long ", walk.inner, " = first + u;"));
    Line(absl::StrCat("(void)", walk.inner, ";"));
  }
  for (int s : span.body) {
    if (varying_.count(s)) Define(s);
  }
  for (const auto& [a, value] : span.accumulations) Accumulate(a, Ref(value), Index(k_.accumulators[a].position));
  const std::string guard = walk.live.empty() ? "" : absl::StrCat("if (", walk.live, ") ");
  for (const Store* store : span.stores) {
    auto it = std::find(packed.begin(), packed.end(), store);
    Line(it == packed.end() ? guard + StoreStatement(*store) : PackElement(*store, it - packed.begin()));
  }
  if (vectors) Close();
  if (packed.empty()) return;
  OpenIf(walk.live);
  for (size_t n = 0; n < packed.size(); ++n) StorePack(*packed[n], n, walk.inner, walk.width);
  Close();
}

// A block within which "base" is a thread's first step of a round.
void CudaSteps::OpenRounds(const Walk& walk, const Count& count, const std::vector<Fetch>& fetches, bool unrolled) {
  if (walk.once) {
    DeclareFetches(walk, fetches);  // outside: they stay for later walks
    OpenIf("");
    Line(absl::StrCat("const ", count.type(), " base = ", walk.lane, ";"));
    return;
  }
  if (walk.unrolled) Line(unrolled ? "#pragma unroll" : "#pragma unroll 1");
  Open(absl::StrCat("for (", count.type(), " base = ", walk.lane, "; base < ", count.text, "; base += ", walk.in_flight,
                    " * ", walk.stride, ")"));
  DeclareFetches(walk, fetches);
}

void CudaSteps::EmitRounds(const Walk& walk, const Span& span, const std::vector<Fetch>& fetches, Aligned aligned) {
  const Count count = CountOf(walk, span);
  const std::string guard = GuardOf(walk, span, count);
  OpenRounds(walk, count, fetches, aligned != Aligned::kNo);
  EmitFetches(walk, span, count, guard, fetches, aligned);
  OpenSteps(walk, span, count, guard);
  EmitElements(walk, span);
  CloseSteps();
  Close();
}

// Many steps in several dimensions that one thread does: only the last dimension's are written out then, as NVRTC takes
// as long as there is code (49 filter taps: 0.21 s at once, 0.11 row by row). The order of steps is the same.
bool CudaSteps::IsNested(const Walk& walk, const Span& span) const {
  const std::optional<int64_t> steps = StepsOf(walk, span).constant();
  return walk.unrolled && walk.lane == "0" && walk.loops.size() > 1 && steps && *steps > kMostWrittenOut;
}

void CudaSteps::EmitNested(const Walk& walk, const Span& span, const std::vector<Fetch>& fetches) {
  Walk inner = walk;
  inner.loops = {walk.loops.back()};
  for (size_t i = 0; i + 1 < walk.loops.size(); ++i) {
    const std::string& var = walk.loops[i].var;
    Line("#pragma unroll 1");
    Open(absl::StrCat("for (long ", var, " = 0; ", var, " < ", Index(walk.loops[i].size), "; ++", var, ")"));
  }
  EmitRounds(inner, span, fetches, Aligned::kYes);
  for (size_t i = 0; i + 1 < walk.loops.size(); ++i) Close();
}

// Rounds that are written out have loads of one element, which are many and rare, in a loop of their own: NVRTC takes
// half the time then.
void CudaSteps::EmitWalk(const Walk& walk, const Span& span) {
  const std::map<int, std::string> before = fetched_;
  const std::vector<Fetch> fetches = PlanFetches(walk, span);
  if (walk.unrolled && !walk.once && walk.width > 1 && !fetches.empty()) {
    Open("if (aligned)");
    IsNested(walk, span) ? EmitNested(walk, span, fetches) : EmitRounds(walk, span, fetches, Aligned::kYes);
    Close();
    Open("else");
    EmitRounds(walk, span, fetches, Aligned::kNo);
    Close();
  } else {
    EmitRounds(walk, span, fetches, Aligned::kUnknown);
  }
  fetched_ = before;
}

}  // namespace preheat::codegen
