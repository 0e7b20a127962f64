#include "compiler/codegen/cpu/emit_cpu.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu/math_functions.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/schedule/access.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;

namespace {

constexpr char kSymbol[] = "PREHEAT_KERNEL";

// u[c * ldu + r] = a[r * lda + c]: eight by eight in registers, the rest one by one.
constexpr char kTransposed[] = R"(typedef float phx_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int phx_i8 __attribute__((vector_size(32)));
static inline __attribute__((always_inline)) void phx_transpose8(const float* a, long lda, float* u, long ldu) {
  phx_v8 r[8], t[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = *(const phx_v8*)(a + i * lda);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shuffle(r[i], r[i + 1], (phx_i8){0, 8, 1, 9, 4, 12, 5, 13});
    t[i + 1] = __builtin_shuffle(r[i], r[i + 1], (phx_i8){2, 10, 3, 11, 6, 14, 7, 15});
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    s[i] = __builtin_shuffle(t[i], t[i + 2], (phx_i8){0, 1, 8, 9, 4, 5, 12, 13});
    s[i + 1] = __builtin_shuffle(t[i], t[i + 2], (phx_i8){2, 3, 10, 11, 6, 7, 14, 15});
    s[i + 2] = __builtin_shuffle(t[i + 1], t[i + 3], (phx_i8){0, 1, 8, 9, 4, 5, 12, 13});
    s[i + 3] = __builtin_shuffle(t[i + 1], t[i + 3], (phx_i8){2, 3, 10, 11, 6, 7, 14, 15});
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    *(phx_v8*)(u + i * ldu) = __builtin_shuffle(s[i], s[i + 4], (phx_i8){0, 1, 2, 3, 8, 9, 10, 11});
    *(phx_v8*)(u + (i + 4) * ldu) = __builtin_shuffle(s[i], s[i + 4], (phx_i8){4, 5, 6, 7, 12, 13, 14, 15});
  }
}
static inline __attribute__((always_inline)) void phx_transposed(const float* a, long lda, long rows, long columns,
                                                                 float* u, long ldu) {
  long r = 0;
  for (; r + 8 <= rows; r += 8) {
    long c = 0;
    for (; c + 8 <= columns; c += 8) phx_transpose8(a + r * lda + c, lda, u + c * ldu + r, ldu);
    for (; c < columns; ++c)
      for (long i = r; i < r + 8; ++i) u[c * ldu + i] = a[i * lda + c];
  }
  for (; r < rows; ++r)
    for (long c = 0; c < columns; ++c) u[c * ldu + r] = a[r * lda + c];
}
)";

constexpr int kSumBlock = 128;  // terms of a long sum that are added one by one

bool IsArg(Op op) { return op == Op::kArgMax || op == Op::kArgMin; }

// The reduction identifier of `#pragma omp simd reduction(...)`; empty for those that are no plain fold.
std::string SimdReduction(const Accumulator& a) {
  bool floating = ir::IsFloat(a.dtype);
  switch (a.op) {
    case Op::kReduceSum: return a.dtype == DType::kBool ? "|" : "+";
    case Op::kReduceProd: return a.dtype == DType::kBool ? "&" : "*";
    case Op::kReduceMax: return floating ? absl::StrCat("phr_max_", std::string(ir::DTypeName(a.dtype))) : "max";
    case Op::kReduceMin: return floating ? absl::StrCat("phr_min_", std::string(ir::DTypeName(a.dtype))) : "min";
    case Op::kReduceAny: return "|";
    case Op::kReduceAll: return "&";
    default: return "";
  }
}

class CpuEmitter {
 public:
  explicit CpuEmitter(const Kernel& kernel) : k_(kernel), tiled_(kernel.tile_loop.has_value()) {
    for (const Item& item : k_.order) has_stages_ |= item.stage.has_value();
  }

  absl::StatusOr<EmittedKernel> Run() {
    FindArrays();
    std::string body = Body();
    std::string source = absl::StrCat(
        TargetPragma(), "struct Args { void* const* buffers; const long* scalars; int* error; void* scratch; };\n");
    ASSIGN_OR_RETURN(std::string functions, MathSource(math_));
    absl::StrAppend(&source, functions, transposes_ ? kTransposed : "", DeclaredReductions(), body);
    EmittedKernel emitted;
    emitted.symbol = absl::StrCat("preheat_", OpsName(), "_", Digest(source).substr(0, 8));
    emitted.source = absl::StrReplaceAll(source, {{kSymbol, emitted.symbol}});
    return emitted;
  }

 private:
  // g++ before 14 may turn a masked load of AVX-512 into a whole load and a blend (its bug 110309), and the bytes
  // behind a tensor need not be there: loads that depend on a condition are left to AVX2, whose masked loads stay what
  // they are.
  std::string TargetPragma() const {
    std::vector<std::string> options;
    const bool masked = std::any_of(k_.stmts.begin(), k_.stmts.end(), [](const Stmt& s) {
      return s.kind == Stmt::Kind::kLoad && s.predicate >= 0 && s.depth > 0;
    });
    if (masked) options.push_back("no-avx512f");
    if (k_.width > 0) options.push_back(absl::StrCat("prefer-vector-width=", k_.width));
    return options.empty() ? "" : absl::StrCat("#pragma GCC target(\"", absl::StrJoin(options, ","), "\")\n");
  }

  // Up to four distinct operators, in order: what people see in a profile.
  std::string OpsName() const {
    std::vector<std::string> ops;
    auto note = [&](Op op) {
      std::string name(ir::Info(op).name);
      if (ops.size() < 4 && std::find(ops.begin(), ops.end(), name) == ops.end()) ops.push_back(name);
    };
    for (const Accumulator& a : k_.accumulators) note(a.op);
    for (const Stmt& s : k_.stmts) {
      if (s.kind == Stmt::Kind::kOp) note(s.op);
      if (s.kind == Stmt::Kind::kWrap) ops.empty() ? ops.push_back("take") : void();
    }
    return ops.empty() ? "copy" : absl::StrJoin(ops, "_");
  }

  std::string DeclaredReductions() const {
    std::set<std::string> lines;
    for (const Accumulator& a : k_.accumulators) {
      if (!ir::IsFloat(a.dtype) || (a.op != Op::kReduceMax && a.op != Op::kReduceMin)) continue;
      std::string f = absl::StrCat(a.op == Op::kReduceMax ? "max_" : "min_", std::string(ir::DTypeName(a.dtype)));
      lines.insert(absl::StrCat("#pragma omp declare reduction(phr_", f, " : ", std::string(CType(a.dtype)),
                                " : omp_out = ph_", f,
                                "(omp_out, omp_in)) initializer(omp_priv = ", IdentityText(a.op, a.dtype), ")\n"));
    }
    return absl::StrJoin(lines, "");
  }

  // In a tiled kernel, values of depth 1 that other groups need live in arrays over the tile.
  void FindArrays() {
    if (!tiled_ || !has_stages_) return;
    for (size_t s = 0; s < k_.stmts.size(); ++s) {
      if (k_.stmts[s].depth == 1 && k_.stmts[s].kind != Stmt::Kind::kResult) arrays_.insert(static_cast<int>(s));
    }
  }

  // --- Spelling ---

  void Line(const std::string& text) { absl::StrAppend(&out_, std::string(2 * indent_, ' '), text, "\n"); }
  void Open(const std::string& text) {
    Line(text + " {");
    ++indent_;
  }
  void Close() {
    --indent_;
    Line("}");
  }

  DType TypeOf(int s) const {
    DType dtype = k_.stmts[s].dtype;
    return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
  }
  std::string TypeName(int s) const { return std::string(CType(TypeOf(s))); }

  std::string Ref(int s) const {
    const Stmt& stmt = k_.stmts[s];
    if (stmt.kind == Stmt::Kind::kResult) {
      std::string name = absl::StrCat("r", stmt.accumulator, IsArg(k_.accumulators[stmt.accumulator].op) ? "i" : "");
      return tiled_ ? name + "[ci]" : name;
    }
    if (arrays_.count(s) && !local_.count(s)) return absl::StrCat("s", s, "[ci]");
    return absl::StrCat("v", s);
  }

  std::string Index(const Expr& e) {
    return IndexText(
        e, [&](const std::string& symbol) { return symbol[0] == 'x' ? Ref(std::stoi(symbol.substr(1))) : symbol; },
        math_);
  }

  std::string Value(const Stmt& stmt) {
    switch (stmt.kind) {
      case Stmt::Kind::kConstant: return ConstantText(stmt.value, stmt.dtype);
      case Stmt::Kind::kIndex: return Index(stmt.index);
      case Stmt::Kind::kCondition: return ConditionText(stmt);
      case Stmt::Kind::kLoad: return LoadExpr(stmt);
      case Stmt::Kind::kCast: return CastText(Ref(stmt.args[0]), k_.stmts[stmt.args[0]].dtype, stmt.dtype, math_);
      case Stmt::Kind::kWrap: return WrapText(stmt);
      case Stmt::Kind::kScratch: return absl::StrCat("t", stmt.buffer, "[", Index(stmt.index), "]");
      case Stmt::Kind::kResult: return "";
      case Stmt::Kind::kOp: break;
    }
    std::vector<std::string> args;
    for (int arg : stmt.args) args.push_back(Ref(arg));
    DType operand = k_.stmts[stmt.args.back()].dtype;
    return OpText(stmt.op, args, operand, stmt.dtype, math_);
  }

  std::string ConditionText(const Stmt& stmt) {
    std::vector<std::string> parts;
    if (stmt.predicate >= 0) parts.push_back(Ref(stmt.predicate));
    for (const Expr& e : stmt.conditions) parts.push_back(absl::StrCat("((", Index(e), ") >= 0)"));
    return absl::StrCat("(", absl::StrJoin(parts, " & "), ")");
  }

  std::string LoadExpr(const Stmt& stmt) {
    auto copied = copied_.find(&stmt);
    if (copied != copied_.end()) return copied->second;
    std::string element = absl::StrCat("b", stmt.buffer, "[", Index(stmt.index), "]");
    std::string load = LoadText(element, k_.buffers[stmt.buffer].dtype, math_);
    if (stmt.predicate < 0) return load;
    return absl::StrCat("(", Ref(stmt.predicate), " ? ", load, " : ", ConstantText(ir::Scalar(int64_t{0}), stmt.dtype),
                        ")");
  }

  // Negative indices count from the end; what is still outside reads element 0 and is reported.
  std::string WrapText(const Stmt& stmt) {
    std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
    std::string wrapped = absl::StrCat("(", i, " < 0 ? ", i, " + ", n, " : ", i, ")");
    return absl::StrCat("((unsigned long)", wrapped, " < (unsigned long)", n, " ? ", wrapped, " : 0L)");
  }

  void Define(int s) {
    const Stmt& stmt = k_.stmts[s];
    if (stmt.kind == Stmt::Kind::kResult) return;
    Line(absl::StrCat("const ", TypeName(s), " v", s, " = ", Value(stmt), ";"));
    local_.insert(s);
    if (stmt.kind == Stmt::Kind::kWrap) {
      std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
      std::string outside = absl::StrCat("(", i, " < -", n, ") | (", i, " >= ", n, ")");
      if (stmt.predicate >= 0) outside = absl::StrCat("(", outside, ") & ", Ref(stmt.predicate));
      Line(absl::StrCat("bad |= (", outside, ") ? ", stmt.error_site, " : 0;"));
    }
    if (arrays_.count(s)) Line(absl::StrCat("s", s, "[ci] = v", s, ";"));
  }

  void EmitStore(const Store& store) {
    DType storage = k_.buffers[store.buffer].dtype;
    Line(absl::StrCat("b", store.buffer, "[", Index(store.index),
                      "] = ", StoreText(Ref(store.value), k_.stmts[store.value].dtype, storage, math_), ";"));
  }

  bool UsesErrors() const { return k_.checks_indices; }

  // --- Structure ---

  std::string Body() {
    Open(absl::StrCat("extern \"C\" void ", kSymbol, "(const Args* args, long begin, long end)"));
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      std::string type =
          absl::StrCat(k_.buffers[b].written ? "" : "const ", std::string(StorageType(k_.buffers[b].dtype)));
      Line(absl::StrCat(type, "* __restrict b", b, " = (", type, "*)args->buffers[", b, "];"));
    }
    for (size_t s = 0; s < k_.symbols.size(); ++s) {
      Line(absl::StrCat("const long ", k_.symbols[s], " = args->scalars[", s, "];"));
    }
    for (size_t t = 0; t < k_.scratch.size(); ++t) {
      std::string type(CType(k_.scratch[t].dtype));
      Line(absl::StrCat(type, "* __restrict t", t, " = (", type, "*)((char*)args->scratch + ",
                        Index(k_.scratch[t].offset), ");"));
    }
    if (UsesErrors()) Line("int bad = 0;");
    EmitArrays();
    Open("for (long item = begin; item < end; ++item)");
    EmitItemIndex();
    if (k_.rows) {
      EmitBlock();
    } else {
      EmitOrder();
    }
    Close();
    if (UsesErrors()) Line("if (bad) *args->error = bad;");
    Close();
    return out_;
  }

  // Row after row; sums of columns go along in scratch memory.
  void EmitBlock() {
    for (const ColumnArray& columns : k_.column_arrays) {
      Line("#pragma omp simd");
      Line(absl::StrCat("for (long c = 0; c < ", Index(k_.scratch[columns.scratch].elements), "; ++c) t",
                        columns.scratch, "[c] = 0;"));
    }
    OpenLoop(*k_.rows, "0", Index(k_.rows->size));
    EmitOrder();
    Close();
    for (const ColumnArray& columns : k_.column_arrays) {
      const ScratchArray& array = k_.scratch[columns.scratch];
      Line("#pragma omp simd");
      Line(absl::StrCat(
          "for (long c = 0; c < ", Index(array.elements), "; ++c) b", columns.buffer, "[", Index(columns.start),
          " + c] = ",
          StoreText(absl::StrCat("t", columns.scratch, "[c]"), array.dtype, k_.buffers[columns.buffer].dtype, math_),
          ";"));
    }
  }

  void EmitArrays() {
    for (int s : arrays_) Line(absl::StrCat(TypeName(s), " s", s, "[", k_.tile, "];"));
    if (!tiled_) return;
    for (size_t a = 0; a < k_.accumulators.size(); ++a) {
      Line(absl::StrCat(std::string(CType(k_.accumulators[a].dtype)), " r", a, "[", k_.tile, "];"));
      if (IsArg(k_.accumulators[a].op)) Line(absl::StrCat("long r", a, "i[", k_.tile, "];"));
      if (k_.accumulators[a].op == Op::kReduceSum && ir::IsFloat(k_.accumulators[a].dtype)) {
        Line(absl::StrCat(std::string(CType(k_.accumulators[a].dtype)), " p", a, "[", k_.tile, "];"));
      }
    }
  }

  void EmitItemIndex() {
    if (k_.outer.empty() && !tiled_) return;
    Line("long q = item;");
    if (tiled_) {
      std::string size = Index(k_.tile_loop->size);
      std::string tile = absl::StrCat(k_.tile);
      Line(absl::StrCat("const long tiles = (", size, " + ", k_.tile - 1, ") / ", tile, ";"));
      Line(absl::StrCat("const long c0 = (q % tiles) * ", tile, ";"));
      Line(absl::StrCat("const long cn = ", size, " - c0 < ", tile, " ? ", size, " - c0 : ", tile, ";"));
      Line("q /= tiles;");
    }
    for (size_t i = k_.outer.size(); i-- > 0;) {
      std::string size = absl::StrCat("(", Index(k_.outer[i].size), ")");
      Line(absl::StrCat("const long ", k_.outer[i].var, " = ", i ? absl::StrCat("q % ", size) : "q", ";"));
      if (i) Line(absl::StrCat("q /= ", size, ";"));
    }
    if (k_.outer.empty()) Line("(void)q;");
  }

  void EmitOrder() {
    for (size_t i = 0; i < k_.order.size();) {
      const Item& item = k_.order[i];
      if (item.stage) {
        tiled_ ? EmitTiledStage(*item.stage) : EmitRowStage(*item.stage);
        ++i;
      } else if (tiled_) {
        i = EmitTileGroup(i);
      } else {
        item.store ? EmitStore(*item.store) : Define(item.stmt);
        ++i;
      }
    }
  }

  // Statements between stages of a tiled kernel: what is the same for the tile first, then one loop over it.
  size_t EmitTileGroup(size_t start) {
    size_t end = start;
    while (end < k_.order.size() && !k_.order[end].stage) ++end;
    bool loop = false;
    for (size_t i = start; i < end; ++i) {
      const Item& item = k_.order[i];
      if (item.store) {
        loop = true;
      } else if (k_.stmts[item.stmt].depth == 0) {
        Define(item.stmt);
      } else if (k_.stmts[item.stmt].kind != Stmt::Kind::kResult) {
        loop = true;
      }
    }
    if (!loop) return end;
    OpenTileLoop();
    for (size_t i = start; i < end; ++i) {
      const Item& item = k_.order[i];
      if (item.store) EmitStore(*item.store);
      if (!item.store && k_.stmts[item.stmt].depth == 1) Define(item.stmt);
    }
    Close();
    ForgetTileLocals();
    return end;
  }

  void OpenTileLoop() {
    Line(absl::StrCat("#pragma omp simd", UsesErrors() ? " reduction(|:bad)" : ""));
    Open("for (long ci = 0; ci < cn; ++ci)");
    Line(absl::StrCat("const long ", k_.tile_loop->var, " = c0 + ci;"));
    Line(absl::StrCat("(void)", k_.tile_loop->var, ";"));
  }

  void ForgetTileLocals() {
    std::set<int> kept;
    for (int s : local_) {
      if (k_.stmts[s].depth == 0) kept.insert(s);
    }
    local_ = std::move(kept);
  }

  void EmitTiledStage(const Stage& stage) {
    Open("for (long ci = 0; ci < cn; ++ci)");
    for (int a : stage.accumulators) {
      Line(absl::StrCat("r", a, "[ci] = ", IdentityText(k_.accumulators[a].op, k_.accumulators[a].dtype), ";"));
      if (IsArg(k_.accumulators[a].op)) Line(absl::StrCat("r", a, "i[ci] = 0;"));
    }
    Close();
    for (size_t i = 0; i + 1 < stage.loops.size(); ++i) OpenLoop(stage.loops[i], "0", Index(stage.loops[i].size));
    for (const Piece& piece : stage.pieces) EmitTiledPiece(stage, piece);
    for (size_t i = 0; i + 1 < stage.loops.size(); ++i) Close();
  }

  // Long sums are made of sums of blocks: the error then grows with the square root of what it would (pairwise
  // summation: Higham, "The accuracy of floating point summation", 1993).
  void EmitTiledPiece(const Stage& stage, const Piece& piece) {
    std::vector<int> blocked;
    for (const auto& [a, value] : piece.accumulations) {
      if (!stage.loops.empty() && SumsInBlocks(a, stage.loops.back())) blocked.push_back(a);
    }
    if (blocked.empty()) {
      EmitTiledLoop(stage, piece, Index(piece.begin), Index(piece.end), "r");
      return;
    }
    std::string end = Index(piece.end);
    Open(absl::StrCat("for (long jb = ", Index(piece.begin), "; jb < ", end, "; jb += ", kSumBlock, ")"));
    Line(absl::StrCat("const long je = jb + ", kSumBlock, " < ", end, " ? jb + ", kSumBlock, " : ", end, ";"));
    for (int a : blocked) Line(absl::StrCat("for (long ci = 0; ci < cn; ++ci) p", a, "[ci] = 0;"));
    EmitTiledLoop(stage, piece, "jb", "je", "p");
    for (int a : blocked) Line(absl::StrCat("for (long ci = 0; ci < cn; ++ci) r", a, "[ci] += p", a, "[ci];"));
    Close();
  }

  bool SumsInBlocks(int a, const Loop& loop) const {
    const Accumulator& accumulator = k_.accumulators[a];
    auto size = loop.size.constant();
    return accumulator.op == Op::kReduceSum && ir::IsFloat(accumulator.dtype) && (!size || *size > kSumBlock);
  }

  // `sums`: the prefix of the arrays that block sums go to.
  void EmitTiledLoop(const Stage& stage, const Piece& piece, const std::string& begin, const std::string& end,
                     const std::string& sums) {
    if (!stage.loops.empty()) OpenLoop(stage.loops.back(), begin, end);
    OpenTileLoop();
    for (int s : piece.body) Define(s);
    for (const auto& [a, value] : piece.accumulations) {
      bool block = sums == "p" && SumsInBlocks(a, stage.loops.back());
      Accumulate(a, value, block ? "p" : "r", "[ci]");
    }
    for (const Store& store : piece.stores) EmitStore(store);
    Close();
    ForgetTileLocals();
    if (!stage.loops.empty()) Close();
  }

  void OpenLoop(const Loop& loop, const std::string& begin, const std::string& end) {
    Open(absl::StrCat("for (long ", loop.var, " = ", begin, "; ", loop.var, " < ", end, "; ++", loop.var, ")"));
  }

  void Accumulate(int a, int value, const std::string& prefix, const std::string& at) {
    AccumulateText(a, Ref(value), prefix, at);
  }

  void AccumulateText(int a, const std::string& v, const std::string& prefix, const std::string& at) {
    const Accumulator& accumulator = k_.accumulators[a];
    std::string r = absl::StrCat(prefix, a, at);
    std::string dtype(ir::DTypeName(accumulator.dtype));
    switch (accumulator.op) {
      case Op::kReduceSum: Line(absl::StrCat(r, accumulator.dtype == DType::kBool ? " |= " : " += ", v, ";")); break;
      case Op::kReduceProd: Line(absl::StrCat(r, accumulator.dtype == DType::kBool ? " &= " : " *= ", v, ";")); break;
      case Op::kReduceAny: Line(absl::StrCat(r, " |= ", v, ";")); break;
      case Op::kReduceAll: Line(absl::StrCat(r, " &= ", v, ";")); break;
      case Op::kArgMax:
      case Op::kArgMin: AccumulateArg(a, v, at); break;
      default: {
        bool max = accumulator.op == Op::kReduceMax;
        if (ir::IsFloat(accumulator.dtype)) {
          std::string f = absl::StrCat(max ? "ph_max_" : "ph_min_", dtype);
          math_.insert(f);
          Line(absl::StrCat(r, " = ", f, "(", r, ", ", v, ");"));
        } else {
          Line(absl::StrCat(r, " = ", v, max ? " > " : " < ", r, " ? ", v, " : ", r, ";"));
        }
      }
    }
  }

  void AccumulateArg(int a, const std::string& v, const std::string& at) {
    const Accumulator& accumulator = k_.accumulators[a];
    std::string r = absl::StrCat("r", a, at), i = absl::StrCat("r", a, "i", at);
    std::string better = absl::StrCat("(", v, accumulator.op == Op::kArgMax ? " > " : " < ", r, ")");
    if (ir::IsFloat(accumulator.dtype)) {
      absl::StrAppend(&better, " | ((", v, " != ", v, ") & (", r, " == ", r, "))");
    }
    Line(absl::StrCat("const bool better", a, " = ", better, ";"));
    Line(absl::StrCat(r, " = better", a, " ? ", v, " : ", r, ";"));
    Line(absl::StrCat(i, " = better", a, " ? (", Index(accumulator.position), ") : ", i, ";"));
  }

  // Loads that are contiguous along the first loop of a block and jump along the last one are first copied in the last
  // one's order: cache lines are read once and whole, and the loops below are vector loops.
  void CopyTransposed(const Stage& stage) {
    if (stage.block_run == 0 || stage.loops.size() != 2) return;
    for (int s : stage.pieces[0].body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind == Stmt::Kind::kLoad && stmt.predicate < 0 && stmt.depth == 3) CopyTransposed(stage, stmt);
    }
  }

  void CopyTransposed(const Stage& stage, const Stmt& stmt) {
    const Loop &line = stage.loops[0], &run = stage.loops[1];
    auto along_run = schedule::LinearIn(stmt.index, run.var);
    if (!along_run || along_run->first == Expr(0) || along_run->first == Expr(1)) return;
    auto along_line = schedule::LinearIn(along_run->second, line.var);
    if (!along_line || along_line->first != Expr(1)) return;
    for (const Expr& part : {along_run->first, along_line->second}) {
      for (const std::string& symbol : part.Symbols()) {  // nothing that the loops below have yet to compute
        if (symbol == line.var || symbol[0] == 'x') return;
      }
    }
    std::string u = absl::StrCat("u", copied_.size()), start = Index(along_line->second);
    DType storage = k_.buffers[stmt.buffer].dtype;
    Line(absl::StrCat(std::string(CType(stmt.dtype)), " ", u, "[", stage.block_lines * stage.block_run,
                      "] __attribute__((aligned(64)));"));
    if (storage == DType::kF32) {
      transposes_ = true;
      Line(absl::StrCat("phx_transposed(b", stmt.buffer, " + (", start, "), ", Index(along_run->first), ", ",
                        Index(run.size), ", ", Index(line.size), ", ", u, ", ", stage.block_run, "L);"));
    } else {
      OpenLoop(run, "0", Index(run.size));
      OpenLoop(line, "0", Index(line.size));
      Line(absl::StrCat(u, "[", stage.block_run, "L * ", line.var, " + ", run.var, "] = ", LoadExpr(stmt), ";"));
      Close();
      Close();
    }
    copied_[&stmt] = absl::StrCat(u, "[", stage.block_run, "L * ", line.var, " + ", run.var, "]");
  }

  void EmitRowStage(const Stage& stage) {
    CopyTransposed(stage);
    for (int a : stage.accumulators) {
      const Accumulator& accumulator = k_.accumulators[a];
      Line(absl::StrCat(std::string(CType(accumulator.dtype)), " r", a, " = ",
                        IdentityText(accumulator.op, accumulator.dtype), ";"));
      if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i = 0;"));
    }
    for (const Piece& piece : stage.pieces) EmitPiece(stage, piece);
  }

  void EmitPiece(const Stage& stage, const Piece& piece) {
    Open("");
    const int depth = static_cast<int>(stage.loops.size());
    for (int i = 0; i + 1 < depth; ++i) {
      DefineAt(piece, i + 1);
      OpenLoop(stage.loops[i], "0", Index(stage.loops[i].size));
    }
    if (depth == 0) {
      EmitBody(piece, 1, "");
    } else {
      DefineAt(piece, depth);
      EmitInnerLoop(stage.loops.back(), piece, depth + 1);
    }
    for (int i = 0; i + 1 < depth; ++i) Close();
    Close();
    for (int s : piece.body) local_.erase(s);
  }

  void DefineAt(const Piece& piece, int depth) {
    for (int s : piece.body) {
      if (k_.stmts[s].depth == depth) Define(s);
    }
  }

  // `sums`: what the names of accumulators end in.
  void EmitBody(const Piece& piece, int depth, const std::string& sums) {
    DefineAt(piece, depth);
    for (const auto& [a, value] : piece.accumulations) Accumulate(a, value, "r", sums);
    for (const Store& store : piece.stores) EmitStore(store);
    for (const ColumnSum& sum : piece.column_sums) {
      Line(absl::StrCat("t", k_.column_arrays[sum.array].scratch, "[", Index(sum.place), "] += ", Ref(sum.value), ";"));
    }
    for (const Store& store : piece.scratch_stores) {
      Line(absl::StrCat("t", store.buffer, "[", Index(store.index), "] = ", Ref(store.value), ";"));
    }
  }

  void EmitInnerLoop(const Loop& loop, const Piece& piece, int depth) {
    const int copies = CopiesOf(piece);
    std::string begin = Index(piece.begin), end = Index(piece.end);
    if (copies > 1) {
      EmitCopies(loop, piece, depth, copies, begin, end);
      begin = absl::StrCat("jt", loop.var);
    }
    EmitSimd(piece, 1);
    OpenLoop(loop, begin, end);
    EmitBody(piece, depth, "");
    Close();
  }

  static std::string Copy(int c) { return c == 0 ? "" : absl::StrCat("_", c); }

  // A fold waits for its last result, three to five cycles a vector: where little else is done, parts of the loop are
  // folded side by side. A short rest is left to the loop that follows.
  void EmitCopies(const Loop& loop, const Piece& piece, int depth, int copies, const std::string& begin,
                  const std::string& end) {
    const std::string part = "jp" + loop.var;
    // Not a multiple of a kilobyte of f32: the parts would meet in few sets of the cache.
    Line(absl::StrCat("const long jn", loop.var, " = ((", end, ") - (", begin, ")) / ", 16 * copies, " * 16;"));
    Line(absl::StrCat("const long ", part, " = jn", loop.var, " & 255 ? jn", loop.var, " : jn", loop.var, " > 16 ? jn",
                      loop.var, " - 16 : 0;"));
    for (const auto& [a, value] : piece.accumulations) {
      const Accumulator& accumulator = k_.accumulators[a];
      for (int c = 1; c < copies; ++c) {
        Line(absl::StrCat(std::string(CType(accumulator.dtype)), " r", a, Copy(c), " = ",
                          IdentityText(accumulator.op, accumulator.dtype), ";"));
      }
    }
    EmitSimd(piece, copies);
    Open(absl::StrCat("for (long jc = 0; jc < ", part, "; ++jc)"));
    for (int c = 0; c < copies; ++c) {
      Open("");
      Line(absl::StrCat("const long ", loop.var, " = ", begin, " + jc + ", c, "L * ", part, ";"));
      EmitBody(piece, depth, Copy(c));
      Close();
      ForgetBody(piece, depth);
    }
    Close();
    for (int step = 1; step < copies; step *= 2) {  // pair by pair
      for (int c = 0; c + step < copies; c += 2 * step) FoldCopies(piece, Copy(c), Copy(c + step));
    }
    Line(absl::StrCat("const long jt", loop.var, " = ", begin, " + ", copies, "L * ", part, ";"));
  }

  void ForgetBody(const Piece& piece, int depth) {
    for (int s : piece.body) {
      if (k_.stmts[s].depth == depth) local_.erase(s);
    }
  }

  void FoldCopies(const Piece& piece, const std::string& to, const std::string& from) {
    for (const auto& [a, value] : piece.accumulations) AccumulateText(a, absl::StrCat("r", a, from), "r", to);
  }

  static constexpr int kCheapBody = 14, kFairBody = 28;  // in simple operations; a function counts ten
  static constexpr int64_t kLongLoop = 256;

  // How many parts of the loop are folded side by side.
  int CopiesOf(const Piece& piece) const {
    auto size = (piece.end - piece.begin).constant();
    if (piece.accumulations.empty() || (size && *size < kLongLoop)) return 1;
    for (const auto& [a, value] : piece.accumulations) {
      if (SimdReduction(k_.accumulators[a]).empty()) return 1;
    }
    int cost = 0;
    for (int s : piece.body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind == Stmt::Kind::kWrap) return 1;
      bool function = stmt.kind == Stmt::Kind::kOp && stmt.op >= Op::kExp && stmt.op <= Op::kErfc;
      cost += function ? 10 : stmt.kind == Stmt::Kind::kConstant ? 0 : 1;
    }
    if (k_.copies > 0) return k_.copies;
    const size_t folds = piece.accumulations.size();
    return cost <= kCheapBody && folds <= 2 ? 4 : cost <= kFairBody && folds <= 4 ? 2 : 1;
  }

  void EmitSimd(const Piece& piece, int copies) {
    std::string clauses;
    for (const auto& [a, value] : piece.accumulations) {
      std::string reduction = SimdReduction(k_.accumulators[a]);
      if (reduction.empty()) return;  // a fold with a position: in order
      if (reduction.rfind("phr_", 0) == 0) math_.insert(absl::StrCat("ph_", reduction.substr(4)));
      absl::StrAppend(&clauses, " reduction(", reduction, ":r", a);
      for (int c = 1; c < copies; ++c) absl::StrAppend(&clauses, ",r", a, Copy(c));
      absl::StrAppend(&clauses, ")");
    }
    bool checks =
        std::any_of(piece.body.begin(), piece.body.end(), [&](int s) { return k_.stmts[s].kind == Stmt::Kind::kWrap; });
    if (checks) absl::StrAppend(&clauses, " reduction(|:bad)");
    Line(absl::StrCat("#pragma omp simd", clauses));
  }

  const Kernel& k_;
  const bool tiled_;
  bool has_stages_ = false;
  std::set<int> arrays_;
  std::set<int> local_;  // defined in the scope being printed
  std::set<std::string> math_;
  std::map<const Stmt*, std::string> copied_;  // loads by what they read instead: CopyTransposed
  bool transposes_ = false;
  std::string out_;
  int indent_ = 0;
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitCpu(const Kernel& kernel) { return CpuEmitter(kernel).Run(); }

}  // namespace preheat::codegen
