#include "compiler/codegen/cuda/emit_cuda.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_math.h"
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
constexpr int kFlatTile = 2048, kFlatThreads = 256;
constexpr int kTransposeBlock = 64;         // elements a side
constexpr int kColumns = 32;                // of a tiled kernel with stages: one warp wide
constexpr int64_t kFewItems = 528;          // less than these leave most of a GPU idle, one warp an item
constexpr int64_t kSharedBytes = 96 << 10;  // dynamic, that every target has
constexpr int64_t kStaticBytes = 40 << 10;

bool IsArg(Op op) { return op == Op::kArgMax || op == Op::kArgMin; }

class CudaEmitter {
 public:
  explicit CudaEmitter(const Kernel& kernel) : k_(kernel), tiled_(kernel.tile_loop.has_value()) {
    for (const Item& item : k_.order) {
      if (!item.stage) continue;
      has_stages_ = true;
      FindTransposed(*item.stage);
    }
  }

  absl::StatusOr<CudaKernel> Run() {
    ChooseThreads();
    std::string body = Body();
    ASSIGN_OR_RETURN(std::string functions, CudaMathSource(math_));
    std::string source = absl::StrCat(absl::StrJoin(types_, ""), functions, body);
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
    int64_t y = 32;
    while (y > 1 && (bytes * y > kStaticBytes || (rows > 0 && y > rows))) y /= 2;
    launch_.threads_y = y;
  }

  // A warp an item when items are short and many, else a block.
  void ChooseRowThreads() {
    int64_t n = LongestStage();
    auto items = k_.extent.constant();
    bool few = items && *items < kFewItems;
    warp_ = transposed_.empty() && n > 0 && n <= (few ? 256 : 1024);
    if (warp_) {
      launch_.threads_x = 32;
      launch_.threads_y = n <= 256 ? 8 : 4;
    } else {
      launch_.threads_x = n == 0 || n <= 8192 ? 256 : n <= 16384 ? 512 : 1024;
    }
    launch_.grid = launch_.threads_y == 1 ? k_.extent : Expr::CeilDiv(k_.extent, Expr(launch_.threads_y));
    PlaceScratch();
  }

  // Loads of a two-dimensional block that run along its first loop: they go through shared memory, so that both
  // memories are walked along their rows.
  void FindTransposed(const Stage& stage) {
    if (tiled_ || stage.loops.size() != 2 || stage.pieces.size() != 1 || !stage.accumulators.empty()) return;
    // The loop that the stores run along is walked fastest.
    const auto& stores = stage.pieces[0].stores;
    first_fastest_ = !stores.empty() && std::all_of(stores.begin(), stores.end(), [&](const Store& store) {
      auto first = schedule::LinearIn(store.index, stage.loops[0].var);
      return first && first->first == Expr(1);
    });
    const Loop &fast = stage.loops[first_fastest_ ? 0 : 1], &slow = stage.loops[first_fastest_ ? 1 : 0];
    for (const Loop& loop : stage.loops) {
      auto most = loop.size.constant();
      if (loop.var.size() < 2 || loop.var.substr(loop.var.size() - 2) != "_i" || (most && *most > kTransposeBlock)) {
        first_fastest_ = false;
        return;
      }
    }
    int64_t bytes = 0;
    for (int s : stage.pieces[0].body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind != Stmt::Kind::kLoad || stmt.predicate >= 0) continue;
      int64_t more = ir::DTypeSize(k_.buffers[stmt.buffer].dtype) * kTransposeBlock * (kTransposeBlock + 1);
      if (bytes + more > kStaticBytes) continue;
      auto first = schedule::LinearIn(stmt.index, slow.var), last = schedule::LinearIn(stmt.index, fast.var);
      const auto symbols = stmt.index.Symbols();
      bool direct = std::none_of(symbols.begin(), symbols.end(), [](const std::string& v) { return v[0] == 'x'; });
      if (direct && first && last && first->first == Expr(1) && last->first != Expr(0) && last->first != Expr(1)) {
        bytes += more;
        transposed_[s] = absl::StrCat("tile", s, "[", fast.var, " * ", kTransposeBlock + 1, " + ", slow.var, "]");
      }
    }
  }

  void FillTransposed(const Stage& stage) {
    if (transposed_.empty()) return;
    const Loop &fast = stage.loops[first_fastest_ ? 0 : 1], &slow = stage.loops[first_fastest_ ? 1 : 0];
    std::string rows = absl::StrCat("(int)(", Index(slow.size), ")"),
                columns = absl::StrCat("(int)(", Index(fast.size), ")");
    for (const auto& [s, element] : transposed_) {
      Open(absl::StrCat("for (int e = threadIdx.x; e < ", rows, " * ", columns, "; e += ", Lanes(), ")"));
      Line(absl::StrCat("const long ", slow.var, " = e % ", rows, ", ", fast.var, " = e / ", rows, ";"));
      Line(absl::StrCat(element, " = b", k_.stmts[s].buffer, "[", Index(k_.stmts[s].index), "];"));
      Close();
    }
    Line("__syncthreads();");
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
    int number = static_cast<int>(&stmt - k_.stmts.data());
    if (auto it = transposed_.find(number); it != transposed_.end()) element = it->second;
    if (vector_loads_.count(number)) element = absl::StrCat("w", number, ".x[u]");
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
    if (stmt.kind != Stmt::Kind::kWrap) return;
    std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
    std::string outside = absl::StrCat("(", i, " < -", n, ") | (", i, " >= ", n, ")");
    if (stmt.predicate >= 0) outside = absl::StrCat("(", outside, ") & ", Ref(stmt.predicate));
    Line(absl::StrCat("if (", outside, ") *error = ", stmt.error_site, ";"));
  }

  std::string StoreStatement(const Store& store) {
    DType storage = k_.buffers[store.buffer].dtype;
    auto vector = vector_stores_.find(&store);
    std::string element = vector != vector_stores_.end()
                              ? absl::StrCat("o", vector->second, "[u]")
                              : absl::StrCat("b", store.buffer, "[", Index(store.index), "]");
    return absl::StrCat(element, " = ", StoreText(Ref(store.value), k_.stmts[store.value].dtype, storage, math_), ";");
  }

  // --- Structure ---

  std::string Body() {
    std::vector<std::string> parameters;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      parameters.push_back(absl::StrCat(k_.buffers[b].written ? "" : "const ",
                                        std::string(StorageType(k_.buffers[b].dtype)), "* __restrict__ b", b));
    }
    for (const std::string& symbol : k_.symbols) parameters.push_back(absl::StrCat("const long ", symbol));
    Open(absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", launch_.threads_x * launch_.threads_y, ") ",
                      kSymbol, "(", absl::StrJoin(parameters, ", "), parameters.empty() ? "" : ", ",
                      "int* error, char* scratch, const long extent)"));
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
    for (const auto& [s, element] : transposed_) {
      (void)element;
      Line(absl::StrCat("__shared__ ", std::string(StorageType(k_.buffers[k_.stmts[s].buffer].dtype)), " tile", s, "[",
                        kTransposeBlock * (kTransposeBlock + 1), "];"));
    }
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
      Line(absl::StrCat("char* mine = scratch + ((long)blockIdx.x * ", launch_.threads_y, " + ", row, ") * ", bytes,
                        ";"));
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
    std::vector<int> body;
    std::vector<const Store*> stores;
    for (const Item& item : k_.order) {
      if (item.store) stores.push_back(&*item.store);
      if (!item.store && k_.stmts[item.stmt].depth != 0) body.push_back(item.stmt);
    }
    auto emit = [&] {
      for (const Item& item : k_.order) {
        if (item.store) Line(StoreStatement(*item.store));
        if (!item.store && k_.stmts[item.stmt].depth != 0) Define(item.stmt);
      }
    };
    const std::string& c = k_.tile_loop->var;
    bool vector = PlanVectors(c, kFlatTile, body, stores);
    if (vector) {
      EmitVectorLoop(absl::StrCat("cn == ", k_.tile), c, "c0", absl::StrCat(k_.tile), stores, emit);
      Open("else");
    }
    Open(absl::StrCat("for (long ci = threadIdx.x; ci < cn; ci += ", launch_.threads_x, ")"));
    Line(absl::StrCat("const long ", c, " = c0 + ci;"));
    emit();
    Close();
    if (vector) Close();
  }

  // --- Vectors: 16 bytes at a time where memory is walked in steps of one ---

  // Whether e = variable + a multiple of `width`, whatever the other symbols are. They must be known before the loop.
  bool WalksVectors(const Expr& e, const std::string& variable, int64_t width) const {
    for (const std::string& symbol : e.Symbols()) {
      if (symbol[0] == 'x' && k_.stmts[std::stoi(symbol.substr(1))].depth > 0) return false;
    }
    auto linear = schedule::LinearIn(e, variable);
    if (!linear || linear->first != Expr(1)) return false;
    for (const auto& [monomial, coefficient] : linear->second.terms()) {
      (void)monomial;
      if (coefficient % width != 0) return false;
    }
    return true;
  }

  // Chooses the width and what is loaded and stored by it. False: nothing is.
  bool PlanVectors(const std::string& variable, int64_t elements, const std::vector<int>& body,
                   const std::vector<const Store*>& stores) {
    int64_t narrowest = 8, widest = 1;
    auto note = [&](DType dtype) {
      narrowest = std::min<int64_t>(narrowest, ir::DTypeSize(dtype));
      widest = std::max<int64_t>(widest, ir::DTypeSize(dtype));
    };
    for (int s : body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind == Stmt::Kind::kLoad && stmt.predicate < 0 && WalksVectors(stmt.index, variable, 1)) {
        note(k_.buffers[stmt.buffer].dtype);
      }
    }
    for (const Store* store : stores) {
      if (WalksVectors(store->index, variable, 1)) note(k_.buffers[store->buffer].dtype);
    }
    width_ = std::min<int64_t>({8, 16 / narrowest, 32 / widest});
    if (width_ < 4 / narrowest || width_ < 2 || elements % width_ != 0) return false;
    int found = 0;
    for (int s : body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind != Stmt::Kind::kLoad || stmt.predicate >= 0 || transposed_.count(s) ||
          !WalksVectors(stmt.index, variable, width_))
        continue;
      planned_loads_.insert(s), ++found;
    }
    for (const Store* store : stores) {
      if (WalksVectors(store->index, variable, width_))
        planned_stores_.emplace(store, static_cast<int>(planned_stores_.size())), ++found;
    }
    return found > 0;
  }

  // A vector in registers; memory is read and written in the compiler's own vector types, which it never takes apart.
  std::string VectorType(DType dtype) {
    std::string type(StorageType(dtype));
    std::string name = absl::StrCat("V", width_, "_", absl::StrReplaceAll(type, {{" ", "_"}}));
    types_.insert(absl::StrCat("struct ", name, " { ", type, " x[", width_, "]; };\n"));
    return name;
  }

  // The widest memory type that a vector of so many bytes is made of.
  static std::pair<std::string, int64_t> MemoryType(int64_t bytes) {
    if (bytes % 16 == 0) return {"uint4", 16};
    if (bytes % 8 == 0) return {"uint2", 8};
    return {"unsigned", 4};
  }

  void LoadVector(int s) {
    const Stmt& stmt = k_.stmts[s];
    DType dtype = k_.buffers[stmt.buffer].dtype;
    std::string type = VectorType(dtype);
    int64_t bytes = width_ * ir::DTypeSize(dtype);
    auto [memory, size] = MemoryType(bytes);
    std::string wide = absl::StrCat("M", bytes);
    std::vector<std::string> fields, parts;
    for (int64_t i = 0; i * size < bytes; ++i) {
      fields.push_back(absl::StrCat("m", i));
      parts.push_back(absl::StrCat("p", s, "[", i, "]"));
    }
    types_.insert(absl::StrCat("struct ", wide, " { ", memory, " ", absl::StrJoin(fields, ", "), "; };\n"));
    Line(absl::StrCat("const ", memory, "* p", s, " = (const ", memory, "*)(b", stmt.buffer, " + (", Index(stmt.index),
                      "));"));
    Line(absl::StrCat("const ", type, " w", s, " = __builtin_bit_cast(", type, ", ", wide, "{",
                      absl::StrJoin(parts, ", "), "});"));
  }

  // Word k (four bytes) of the vector o<number>.
  static std::string Word(int number, DType dtype, int64_t k) {
    auto element = [&](int64_t i) { return absl::StrCat("o", number, "[", i, "]"); };
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

  void StoreVector(const Store& store, int number) {
    DType dtype = k_.buffers[store.buffer].dtype;
    int64_t bytes = width_ * ir::DTypeSize(dtype);
    auto [memory, size] = MemoryType(bytes);
    Line(absl::StrCat(memory, "* q", number, " = (", memory, "*)(b", store.buffer, " + (", Index(store.index), "));"));
    for (int64_t i = 0; i * size < bytes; ++i) {
      std::vector<std::string> words;
      for (int64_t k = 0; k < size / 4; ++k) words.push_back(Word(number, dtype, i * size / 4 + k));
      Line(absl::StrCat("q", number, "[", i, "] = ", memory, "{", absl::StrJoin(words, ", "), "};"));
    }
  }

  // if (guard && all addresses are aligned) { ... }: the loop over [begin, begin + elements), `body` printing one
  // element.
  void EmitVectorLoop(const std::string& guard, const std::string& variable, const std::string& begin,
                      const std::string& elements, const std::vector<const Store*>& stores,
                      const std::function<void()>& body) {
    std::set<int> buffers;
    for (int s : planned_loads_) buffers.insert(k_.stmts[s].buffer);
    for (const auto& [store, number] : planned_stores_) (void)number, buffers.insert(store->buffer);
    std::string addresses;
    for (int b : buffers) absl::StrAppend(&addresses, addresses.empty() ? "" : " | ", "(unsigned long)b", b);
    Open(absl::StrCat("if (", guard, guard.empty() ? "" : " && ", "((", addresses, ") & 15) == 0)"));
    Line("#pragma unroll 2");
    Open(absl::StrCat("for (long e = threadIdx.x * ", width_, "; e < ", elements, "; e += ", launch_.threads_x * width_,
                      ")"));
    {
      Line(absl::StrCat("const long ", variable, " = ", begin, " + e;"));
      for (int s : planned_loads_) LoadVector(s);
      for (const Store* store : stores) {
        auto it = planned_stores_.find(store);
        if (it != planned_stores_.end())
          Line(absl::StrCat(std::string(StorageType(k_.buffers[store->buffer].dtype)), " o", it->second, "[", width_,
                            "];"));
      }
      Line(absl::StrCat("const long first = ", variable, ";"));
      vector_loads_ = planned_loads_, vector_stores_ = planned_stores_;
      Line("#pragma unroll");
      Open(absl::StrCat("for (int u = 0; u < ", width_, "; ++u)"));
      Line(absl::StrCat("const long ", variable, " = first + u;"));
      Line(absl::StrCat("(void)", variable, ";"));
      body();
      Close();
      vector_loads_.clear(), vector_stores_.clear();
      for (const Store* store : stores) {
        auto it = planned_stores_.find(store);
        if (it != planned_stores_.end()) StoreVector(*store, it->second);
      }
    }
    Close();
    Close();
    planned_loads_.clear(), planned_stores_.clear();
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
      Line(absl::StrCat(std::string(CType(accumulator.dtype)), " r", a, " = ",
                        IdentityText(accumulator.op, accumulator.dtype), ";"));
      if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i = 0;"));
    }
    for (const Piece& piece : stage.pieces) {
      EmitPiece(stage, piece);
      keeps |= !piece.scratch_stores.empty();
    }
    Combine(stage.accumulators);
    if (keeps) Line(warp_ ? "__syncwarp();" : "__syncthreads();");
  }

  // A row whose one loop is whole vectors.
  bool VectorPiece(const Stage& stage, const Piece& piece) {
    if (tiled_ || stage.loops.size() != 1 || !piece.scratch_stores.empty()) return false;
    auto begin = piece.begin.constant(), end = piece.end.constant();
    if (!begin || !end || *begin % 8 != 0 || *end - *begin < 4 * launch_.threads_x) return false;
    std::vector<const Store*> stores;
    for (const Store& store : piece.stores) stores.push_back(&store);
    if (!PlanVectors(stage.loops[0].var, *end - *begin, piece.body, stores)) {
      planned_loads_.clear(), planned_stores_.clear();
      return false;
    }
    EmitVectorLoop("", stage.loops[0].var, absl::StrCat(*begin), absl::StrCat(*end - *begin), stores,
                   [&] { EmitPieceBody(stage, piece); });
    return true;
  }

  // The loops of a piece as one, dealt out to the lanes.
  void EmitPiece(const Stage& stage, const Piece& piece) {
    FillTransposed(stage);
    bool vector = VectorPiece(stage, piece);
    if (vector) Open("else");
    EmitScalarPiece(stage, piece);
    if (vector) Close();
  }

  void EmitScalarPiece(const Stage& stage, const Piece& piece) {
    std::vector<std::string> sizes;
    for (size_t i = 0; i < stage.loops.size(); ++i) {
      bool last = i + 1 == stage.loops.size();
      sizes.push_back(last ? absl::StrCat("(", Index(piece.end - piece.begin), ")")
                           : absl::StrCat("(", Index(stage.loops[i].size), ")"));
    }
    std::string total = sizes.empty() ? "1" : absl::StrJoin(sizes, " * ");
    // Indices of a piece of known size fit 32 bits: division is cheaper.
    int64_t known = 1;
    for (size_t i = 0; i < stage.loops.size() && known > 0; ++i) {
      auto n = i + 1 == stage.loops.size() ? (piece.end - piece.begin).constant() : stage.loops[i].size.constant();
      known = n && *n > 0 && *n < INT32_MAX / known ? known * *n : 0;
    }
    const char* type = known > 0 && known < INT32_MAX - 2048 ? "int" : "long";
    if (known > 0) {
      for (std::string& size : sizes) size = absl::StrReplaceAll(size, {{"L", ""}});
      total = sizes.empty() ? "1" : absl::StrJoin(sizes, " * ");
    }
    Line("#pragma unroll 4");
    Open(absl::StrCat("for (", type, " e = ", Lane(), "; e < ", total, "; e += ", Lanes(), ")"));
    Line(absl::StrCat(type, " p = e;"));
    std::vector<size_t> fastest_last;
    for (size_t i = 0; i < stage.loops.size(); ++i) fastest_last.push_back(i);
    if (first_fastest_ && !transposed_.empty()) std::reverse(fastest_last.begin(), fastest_last.end());
    for (size_t n = fastest_last.size(); n-- > 0;) {
      size_t i = fastest_last[n];
      bool last = i + 1 == stage.loops.size();
      std::string at = n ? absl::StrCat("p % ", sizes[i]) : "p";
      if (last && piece.begin != Expr(0)) at = absl::StrCat("(", Index(piece.begin), ") + ", at);
      Line(absl::StrCat("const long ", stage.loops[i].var, " = ", at, ";"));
      if (n) Line(absl::StrCat("p /= ", sizes[i], ";"));
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
    std::string better = absl::StrCat(v, accumulator.op == Op::kArgMax ? " > " : " < ", r),
                same = absl::StrCat(v, " == ", r);
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
    std::string slot =
        tiled_ ? absl::StrCat("threadIdx.y * ", launch_.threads_x, " + threadIdx.x") : "threadIdx.x >> 5";
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
    Line(absl::StrCat("const ", type, " o = (", type, ")__shfl_xor_sync(0xffffffffu, ", narrow ? "(int)" : "", "r", a,
                      ", m);"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("const long oi = __shfl_xor_sync(0xffffffffu, r", a, "i, m);"));
    Accumulate(a, "o", "oi");
    Close();
  }

  // All lanes' slots in one order.
  void Fold(int a) {
    const Accumulator& accumulator = k_.accumulators[a];
    int64_t count = tiled_ ? launch_.threads_y : launch_.threads_x / 32;
    auto slot = [&](const std::string& w) {
      return tiled_ ? absl::StrCat(w, " * ", launch_.threads_x, " + threadIdx.x") : w;
    };
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
  bool first_fastest_ = false;                  // of a transposing stage's two loops
  std::map<int, std::string> transposed_;       // loads that go through shared memory: the element there
  int64_t width_ = 1;                           // elements of a vector
  std::set<int> planned_loads_, vector_loads_;  // planned for the loop to come; in force in the loop being printed
  std::map<const Store*, int> planned_stores_, vector_stores_;
  std::set<std::string> types_;
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
  choices.line = choices.run = kTransposeBlock;
  choices.keep = false;  // a GPU computes sooner than it fetches from memory that all rows in flight share
  return choices;
}

absl::StatusOr<CudaKernel> EmitCuda(const Kernel& kernel) { return CudaEmitter(kernel).Run(); }

}  // namespace preheat::codegen
