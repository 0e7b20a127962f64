#include "compiler/codegen/cuda/emit_cuda.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;

namespace {

constexpr char kSymbol[] = "PREHEAT_KERNEL";
constexpr int kFlatTile = 1024, kFlatThreads = 256;
constexpr int kColumns = 32;              // of a tiled kernel with stages: one warp wide
constexpr int64_t kFewItems = 528;        // less than these leave most of a GPU idle, one warp an item
constexpr int64_t kSharedBytes = 96 << 10;  // dynamic, that every target has
constexpr int64_t kStaticBytes = 40 << 10;

bool IsArg(Op op) { return op == Op::kArgMax || op == Op::kArgMin; }

class CudaEmitter {
 public:
  explicit CudaEmitter(const Kernel& kernel) : k_(kernel), tiled_(kernel.tile_loop.has_value()) {
    for (const Item& item : k_.order) has_stages_ |= item.stage.has_value();
  }

  absl::StatusOr<CudaKernel> Run() {
    ChooseThreads();
    std::string body = Body();
    ASSIGN_OR_RETURN(std::string functions, CudaMathSource(math_));
    std::string source = absl::StrCat(functions, body);
    source = BuiltinsFor(source) + source;
    CudaKernel emitted;
    emitted.code.symbol = absl::StrCat("preheat_", OpsName(), "_", Digest(source).substr(0, 8));
    emitted.code.source = absl::StrReplaceAll(source, {{kSymbol, emitted.code.symbol}});
    emitted.launch = launch_;
    return emitted;
  }

 private:
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
      if (s.kind == Stmt::Kind::kWrap && ops.empty()) ops.push_back("take");
    }
    return ops.empty() ? "copy" : absl::StrJoin(ops, "_");
  }

  // --- Which thread does what ---

  // Elements of the longest stage; 0 when it is not known.
  int64_t LongestStage() const {
    int64_t longest = 1;
    for (const Item& item : k_.order) {
      if (!item.stage) continue;
      Expr elements(1);
      for (const Loop& loop : item.stage->loops) elements = elements * loop.size;
      if (!elements.constant()) return 0;
      longest = std::max(longest, *elements.constant());
    }
    return longest;
  }

  void ChooseThreads() {
    launch_.shared_bytes = launch_.scratch_bytes = Expr(0);
    if (!has_stages_) {
      launch_.threads_x = tiled_ ? kFlatThreads : 1;
      launch_.grid = k_.extent;
    } else if (tiled_) {
      ChooseColumnThreads();
    } else {
      ChooseRowThreads();
    }
  }

  void ChooseColumnThreads() {
    launch_.threads_x = kColumns;
    launch_.grid = k_.extent;
    int64_t bytes = 0, rows = LongestStage();
    for (const Accumulator& a : k_.accumulators) bytes += kColumns * AccumulatorBytes(a);
    int64_t y = 16;
    while (y > 1 && (bytes * y > kStaticBytes || (rows > 0 && y > rows))) y /= 2;
    launch_.threads_y = y;
  }

  // A warp an item when items are short and many, else a block.
  void ChooseRowThreads() {
    int64_t n = LongestStage();
    auto items = k_.extent.constant();
    bool few = items && *items < kFewItems;
    warp_ = n > 0 && n <= (few ? 256 : 1024);
    if (warp_) {
      launch_.threads_x = 32;
      launch_.threads_y = n <= 256 ? 8 : 4;
    } else {
      launch_.threads_x = n == 0 ? 256 : n <= 4096 ? 128 : n <= 16384 ? 256 : few ? 1024 : 512;
      if (few && n > 1024) launch_.threads_x = std::max<int64_t>(launch_.threads_x, 256);
    }
    launch_.grid = launch_.threads_y == 1 ? k_.extent : Expr::CeilDiv(k_.extent, Expr(launch_.threads_y));
    PlaceScratch();
  }

  void PlaceScratch() {
    if (k_.scratch.empty()) return;
    auto bytes = k_.scratch_bytes.constant();
    if (bytes && RoundUp(*bytes) * launch_.threads_y <= kSharedBytes) {
      scratch_stride_ = RoundUp(*bytes);
      launch_.shared_bytes = scratch_stride_ * launch_.threads_y;
      return;
    }
    global_scratch_ = true;
    launch_.scratch_bytes = Expr::CeilDiv(k_.scratch_bytes, Expr(64)) * Expr(64 * launch_.threads_y);
    launch_.grid = Expr::Min(launch_.grid, Expr(1024));
  }
  static int64_t RoundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  static int64_t AccumulatorBytes(const Accumulator& a) {
    return std::max<int64_t>(4, ir::DTypeSize(a.dtype)) + (IsArg(a.op) ? 8 : 0);
  }

  bool Rows() const { return !tiled_; }
  std::string Lane() const { return tiled_ ? "threadIdx.y" : "threadIdx.x"; }
  int64_t Lanes() const { return tiled_ ? launch_.threads_y : launch_.threads_x; }

  // --- Spelling: as in emit_cpu.cc ---

  void Line(const std::string& text) { absl::StrAppend(&out_, std::string(2 * indent_, ' '), text, "\n"); }
  void Open(const std::string& text) {
    Line(text + " {");
    ++indent_;
  }
  void Close() {
    --indent_;
    Line("}");
  }

  std::string TypeName(int s) const { return std::string(CType(k_.stmts[s].dtype)); }

  std::string Ref(int s) const {
    const Stmt& stmt = k_.stmts[s];
    if (stmt.kind != Stmt::Kind::kResult) return absl::StrCat("v", s);
    return absl::StrCat("r", stmt.accumulator, IsArg(k_.accumulators[stmt.accumulator].op) ? "i" : "");
  }

  std::string Index(const Expr& e) {
    return IndexText(e, [&](const std::string& symbol) {
      return symbol[0] == 'x' ? Ref(std::stoi(symbol.substr(1))) : symbol;
    }, math_);
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
    return OpText(stmt.op, args, k_.stmts[stmt.args.back()].dtype, stmt.dtype, math_);
  }

  std::string ConditionText(const Stmt& stmt) {
    std::vector<std::string> parts;
    if (stmt.predicate >= 0) parts.push_back(Ref(stmt.predicate));
    for (const Expr& e : stmt.conditions) parts.push_back(absl::StrCat("((", Index(e), ") >= 0)"));
    return absl::StrCat("(", absl::StrJoin(parts, " & "), ")");
  }

  std::string LoadExpr(const Stmt& stmt) {
    std::string element = absl::StrCat("b", stmt.buffer, "[", Index(stmt.index), "]");
    std::string load = LoadText(element, k_.buffers[stmt.buffer].dtype, math_);
    if (stmt.predicate < 0) return load;
    return absl::StrCat("(", Ref(stmt.predicate), " ? ", load, " : ", ConstantText(ir::Scalar(int64_t{0}), stmt.dtype), ")");
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
    if (stmt.kind != Stmt::Kind::kWrap) return;
    std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
    std::string outside = absl::StrCat("(", i, " < -", n, ") | (", i, " >= ", n, ")");
    if (stmt.predicate >= 0) outside = absl::StrCat("(", outside, ") & ", Ref(stmt.predicate));
    Line(absl::StrCat("if (", outside, ") *error = ", stmt.error_site, ";"));
  }

  std::string StoreStatement(const Store& store) {
    DType storage = k_.buffers[store.buffer].dtype;
    return absl::StrCat("b", store.buffer, "[", Index(store.index), "] = ",
                        StoreText(Ref(store.value), k_.stmts[store.value].dtype, storage, math_), ";");
  }

  // --- Structure ---

  std::string Body() {
    std::vector<std::string> parameters;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      parameters.push_back(absl::StrCat(k_.buffers[b].written ? "" : "const ", std::string(StorageType(k_.buffers[b].dtype)), "* __restrict__ b", b));
    }
    for (const std::string& symbol : k_.symbols) parameters.push_back(absl::StrCat("const long ", symbol));
    Open(absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", launch_.threads_x * launch_.threads_y, ") ", kSymbol, "(",
                      absl::StrJoin(parameters, ", "), parameters.empty() ? "" : ", ", "int* error, char* scratch, const long extent)"));
    DeclareShared();
    std::string first = warp_ ? absl::StrCat("(long)blockIdx.x * ", launch_.threads_y, " + threadIdx.y") : "blockIdx.x";
    std::string step = warp_ ? absl::StrCat("(long)gridDim.x * ", launch_.threads_y) : "gridDim.x";
    Open(absl::StrCat("for (long item = ", first, "; item < extent; item += ", step, ")"));
    EmitItemIndex();
    if (tiled_ && !has_stages_) {
      EmitFlat();
    } else {
      EmitOrder();
    }
    if (has_stages_) Line(warp_ ? "__syncwarp();" : "__syncthreads();");
    Close();
    Close();
    return out_;
  }

  void DeclareShared() {
    if (!warp_) {
      for (size_t a = 0; a < k_.accumulators.size(); ++a) {
        int64_t slots = tiled_ ? launch_.threads_x * launch_.threads_y : launch_.threads_x / 32;
        Line(absl::StrCat("__shared__ ", SharedType(k_.accumulators[a].dtype), " red", a, "[", slots, "];"));
        if (IsArg(k_.accumulators[a].op)) Line(absl::StrCat("__shared__ long red", a, "i[", slots, "];"));
      }
    }
    if (k_.scratch.empty()) return;
    std::string row = warp_ ? "threadIdx.y" : "0";
    if (global_scratch_) {
      std::string bytes = absl::StrCat("((", Index(k_.scratch_bytes), " + 63) / 64 * 64)");
      Line(absl::StrCat("char* mine = scratch + ((long)blockIdx.x * ", launch_.threads_y, " + ", row, ") * ", bytes, ";"));
    } else {
      Line("extern __shared__ __align__(16) char dynamic[];");
      Line(absl::StrCat("char* mine = dynamic + ", row, " * ", scratch_stride_, ";"));
    }
    for (size_t t = 0; t < k_.scratch.size(); ++t) {
      std::string type(CType(k_.scratch[t].dtype));
      Line(absl::StrCat(type, "* t", t, " = (", type, "*)(mine + ", Index(k_.scratch[t].offset), ");"));
    }
  }

  static std::string SharedType(DType dtype) { return dtype == DType::kBool ? "int" : std::string(CType(dtype)); }

  void EmitItemIndex() {
    Line("long q = item;");
    if (tiled_) {
      std::string size = absl::StrCat("(", Index(k_.tile_loop->size), ")"), tile = absl::StrCat(k_.tile);
      Line(absl::StrCat("const long tiles = (", size, " + ", k_.tile - 1, ") / ", tile, ";"));
      if (k_.outer.empty()) {
        Line(absl::StrCat("const long c0 = q * ", tile, ";"));
      } else {
        Line(absl::StrCat("const long c0 = (q % tiles) * ", tile, ";"));
        Line("q /= tiles;");
      }
      Line(absl::StrCat("const long cn = ", size, " - c0 < ", tile, " ? ", size, " - c0 : ", tile, ";"));
      Line("(void)tiles;");
    }
    for (size_t i = k_.outer.size(); i-- > 0;) {
      std::string size = absl::StrCat("(", Index(k_.outer[i].size), ")");
      Line(absl::StrCat("const long ", k_.outer[i].var, " = ", i ? absl::StrCat("q % ", size) : "q", ";"));
      if (i) Line(absl::StrCat("q /= ", size, ";"));
    }
    Line("(void)q;");
    if (tiled_ && has_stages_) {
      // Threads past the last column repeat it and store nothing, so that all of a block meet at its barriers.
      Line("const bool live = threadIdx.x < cn;");
      Line(absl::StrCat("const long ", k_.tile_loop->var, " = c0 + (live ? threadIdx.x : cn - 1);"));
    }
  }

  void EmitFlat() {
    for (const Item& item : k_.order) {
      if (!item.store && k_.stmts[item.stmt].depth == 0) Define(item.stmt);
    }
    Open(absl::StrCat("for (long ci = threadIdx.x; ci < cn; ci += ", launch_.threads_x, ")"));
    Line(absl::StrCat("const long ", k_.tile_loop->var, " = c0 + ci;"));
    for (const Item& item : k_.order) {
      if (item.store) Line(StoreStatement(*item.store));
      if (!item.store && k_.stmts[item.stmt].depth != 0) Define(item.stmt);
    }
    Close();
  }

  void EmitOrder() {
    for (const Item& item : k_.order) {
      if (item.stage) {
        EmitStage(*item.stage);
      } else if (item.store) {
        std::string leader = absl::StrCat(Lane(), " == 0", tiled_ ? " && live" : "");
        Line(absl::StrCat("if (", leader, ") ", StoreStatement(*item.store)));
      } else {
        Define(item.stmt);
      }
    }
  }

  void EmitStage(const Stage& stage) {
    bool keeps = false;
    for (int a : stage.accumulators) {
      const Accumulator& accumulator = k_.accumulators[a];
      Line(absl::StrCat(std::string(CType(accumulator.dtype)), " r", a, " = ", IdentityText(accumulator.op, accumulator.dtype), ";"));
      if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i = 0;"));
    }
    for (const Piece& piece : stage.pieces) {
      EmitPiece(stage, piece);
      keeps |= !piece.scratch_stores.empty();
    }
    Combine(stage.accumulators);
    if (keeps) Line(warp_ ? "__syncwarp();" : "__syncthreads();");
  }

  // The loops of a piece as one, dealt out to the lanes.
  void EmitPiece(const Stage& stage, const Piece& piece) {
    std::vector<std::string> sizes;
    for (size_t i = 0; i < stage.loops.size(); ++i) {
      bool last = i + 1 == stage.loops.size();
      sizes.push_back(last ? absl::StrCat("(", Index(piece.end - piece.begin), ")") : absl::StrCat("(", Index(stage.loops[i].size), ")"));
    }
    std::string total = sizes.empty() ? "1" : absl::StrJoin(sizes, " * ");
    Open(absl::StrCat("for (long e = ", Lane(), "; e < ", total, "; e += ", Lanes(), ")"));
    Line("long p = e;");
    for (size_t i = stage.loops.size(); i-- > 0;) {
      bool last = i + 1 == stage.loops.size();
      std::string at = i ? absl::StrCat("p % ", sizes[i]) : "p";
      if (last && piece.begin != Expr(0)) at = absl::StrCat("(", Index(piece.begin), ") + ", at);
      Line(absl::StrCat("const long ", stage.loops[i].var, " = ", at, ";"));
      if (i) Line(absl::StrCat("p /= ", sizes[i], ";"));
    }
    Line("(void)p;");
    EmitPieceBody(stage, piece);
    Close();
  }

  void EmitPieceBody(const Stage& stage, const Piece& piece) {
    std::vector<int> body = piece.body;
    if (!tiled_) {
      std::stable_sort(body.begin(), body.end(), [&](int a, int b) { return k_.stmts[a].depth < k_.stmts[b].depth; });
    }
    (void)stage;
    for (int s : body) Define(s);
    for (const auto& [a, value] : piece.accumulations) Accumulate(a, Ref(value), Index(k_.accumulators[a].position));
    for (const Store& store : piece.stores) Line((tiled_ ? "if (live) " : "") + StoreStatement(store));
    for (const Store& store : piece.scratch_stores) {
      Line(absl::StrCat("t", store.buffer, "[", Index(store.index), "] = ", Ref(store.value), ";"));
    }
  }

  // --- Reductions ---

  // Accumulator a takes one more value, of element `position` where that counts.
  void Accumulate(int a, const std::string& v, const std::string& position) {
    const Accumulator& accumulator = k_.accumulators[a];
    std::string r = absl::StrCat("r", a);
    if (IsArg(accumulator.op)) return AccumulateArg(a, v, position);
    bool boolean = accumulator.dtype == DType::kBool;
    switch (accumulator.op) {
      case Op::kReduceSum: Line(absl::StrCat(r, boolean ? " |= " : " += ", v, ";")); break;
      case Op::kReduceProd: Line(absl::StrCat(r, boolean ? " &= " : " *= ", v, ";")); break;
      case Op::kReduceAny: Line(absl::StrCat(r, " |= ", v, ";")); break;
      case Op::kReduceAll: Line(absl::StrCat(r, " &= ", v, ";")); break;
      default: {
        bool max = accumulator.op == Op::kReduceMax;
        if (!ir::IsFloat(accumulator.dtype)) {
          Line(absl::StrCat(r, " = ", v, max ? " > " : " < ", r, " ? ", v, " : ", r, ";"));
          break;
        }
        std::string f = absl::StrCat(max ? "ph_max_" : "ph_min_", std::string(ir::DTypeName(accumulator.dtype)));
        math_.insert(f);
        Line(absl::StrCat(r, " = ", f, "(", r, ", ", v, ");"));
      }
    }
  }

  // The first of the best: NaN is best of all, and among equals the least position.
  void AccumulateArg(int a, const std::string& v, const std::string& position) {
    const Accumulator& accumulator = k_.accumulators[a];
    std::string r = absl::StrCat("r", a), i = absl::StrCat("r", a, "i");
    std::string better = absl::StrCat(v, accumulator.op == Op::kArgMax ? " > " : " < ", r), same = absl::StrCat(v, " == ", r);
    if (ir::IsFloat(accumulator.dtype)) {
      better = absl::StrCat("(", better, " && ", r, " == ", r, ") || (", v, " != ", v, " && ", r, " == ", r, ")");
      same = absl::StrCat("(", same, " || (", v, " != ", v, " && ", r, " != ", r, "))");
    }
    Open("");
    Line(absl::StrCat("const long at = ", position, ";"));
    Line(absl::StrCat("const bool better = ", better, " || (", same, " && at < ", i, ");"));
    Line(absl::StrCat(r, " = better ? ", v, " : ", r, ";"));
    Line(absl::StrCat(i, " = better ? at : ", i, ";"));
    Close();
  }

  // Every lane ends with the same result.
  void Combine(const std::vector<int>& accumulators) {
    if (accumulators.empty()) return;
    if (Rows()) {
      for (int a : accumulators) Shuffle(a);
      if (warp_) return;
    }
    std::string slot = tiled_ ? absl::StrCat("threadIdx.y * ", launch_.threads_x, " + threadIdx.x") : "threadIdx.x >> 5";
    for (int a : accumulators) {
      std::string guard = tiled_ ? "" : "if ((threadIdx.x & 31) == 0) ";
      Line(absl::StrCat(guard, "red", a, "[", slot, "] = r", a, ";"));
      if (IsArg(k_.accumulators[a].op)) Line(absl::StrCat(guard, "red", a, "i[", slot, "] = r", a, "i;"));
    }
    Line("__syncthreads();");
    for (int a : accumulators) Fold(a);
  }

  void Shuffle(int a) {
    const Accumulator& accumulator = k_.accumulators[a];
    std::string type(CType(accumulator.dtype));
    bool narrow = ir::DTypeSize(accumulator.dtype) < 4 && !ir::IsFloat(accumulator.dtype);
    Open("for (int m = 16; m > 0; m >>= 1)");
    Line(absl::StrCat("const ", type, " o = (", type, ")__shfl_xor_sync(0xffffffffu, ", narrow ? "(int)" : "", "r", a, ", m);"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("const long oi = __shfl_xor_sync(0xffffffffu, r", a, "i, m);"));
    Accumulate(a, "o", "oi");
    Close();
  }

  // All lanes' slots in one order.
  void Fold(int a) {
    const Accumulator& accumulator = k_.accumulators[a];
    int64_t count = tiled_ ? launch_.threads_y : launch_.threads_x / 32;
    auto slot = [&](const std::string& w) { return tiled_ ? absl::StrCat(w, " * ", launch_.threads_x, " + threadIdx.x") : w; };
    std::string type(CType(accumulator.dtype));
    Line(absl::StrCat("r", a, " = (", type, ")red", a, "[", slot("0"), "];"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("r", a, "i = red", a, "i[", slot("0"), "];"));
    Open(absl::StrCat("for (int w = 1; w < ", count, "; ++w)"));
    Line(absl::StrCat("const ", type, " o = (", type, ")red", a, "[", slot("w"), "];"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("const long oi = red", a, "i[", slot("w"), "];"));
    Accumulate(a, "o", "oi");
    Close();
  }

  const Kernel& k_;
  const bool tiled_;
  bool has_stages_ = false;
  bool warp_ = false;
  bool global_scratch_ = false;
  int64_t scratch_stride_ = 0;
  CudaLaunch launch_;
  std::set<std::string> math_;
  std::string out_;
  int indent_ = 0;
};

}  // namespace

Choices CudaChoices() {
  Choices choices;
  choices.tile = kColumns;
  choices.flat_tile = kFlatTile;
  return choices;
}

absl::StatusOr<CudaKernel> EmitCuda(const Kernel& kernel) { return CudaEmitter(kernel).Run(); }

}  // namespace preheat::codegen
