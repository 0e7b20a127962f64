#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/cuda_steps.h"
#include "compiler/codegen/cuda/emitters.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int64_t kRowsInFlight = 4;  // of a thread
constexpr int64_t kFewRows = 32;      // one thread goes through as many by itself, if there are
constexpr int64_t kMostThreads = 1024, kMostShared = 48 << 10;  // of a block
constexpr int64_t kManyThreads = int64_t{1} << 16;
constexpr int64_t kWindowRows = 128;  // of windows, by itself where columns alone fill the GPU:
constexpr int64_t kBusyThreads = int64_t{1} << 17;
constexpr int64_t kUnrolledRows = 64;  // so that every row's place is a constant

// Items that lie side by side in memory: each thread has a vector of them, and goes through rows of vectors.
class ColumnEmitter : public CudaSteps {
 public:
  ColumnEmitter(const Kernel& kernel, const Schedule& schedule, Loop tile, std::vector<Loop> outer)
      : CudaSteps(kernel, schedule),
        tile_(std::move(tile)),
        outer_(std::move(outer)),
        in_flight_(Turned("steps", 1, 8).value_or(kRowsInFlight)) {}

  absl::StatusOr<CudaKernel> Run() {
    ChooseVectors();
    ChooseThreads();
    EmitPlace();
    for (const Item& item : k_.order) {
      if (item.stage) {
        EmitStage(*item.stage);
      } else if (item.store) {
        EmitStore(*item.store);
      } else {
        EmitStatement(item.stmt);
      }
    }
    return Finish(launch_);
  }

 private:
  void ChooseVectors() {
    std::vector<Span> spans;
    for (const Item& item : k_.order) {
      if (!item.stage) continue;
      Expr rows(1);
      for (const Loop& loop : item.stage->loops) rows = rows * loop.size;
      rows_ = rows.constant() && rows_ >= 0 ? std::max(rows_, *rows.constant()) : -1;
      for (const Piece& piece : item.stage->pieces) spans.push_back(SpanOf(piece));
    }
    std::vector<const Span*> all;
    for (const Span& span : spans) all.push_back(&span);
    width_ = ChooseWidth(tile_.var, all, {tile_.size});
    if (width_ == 1) return;
    Span items{{}, {}, {}, Expr(0), Expr(1)};
    for (const Item& item : k_.order) {
      if (item.stmt >= 0 && !item.stage && !item.store) items.body.push_back(item.stmt);
    }
    lanes_ = "[u]";
    for (int s : Varying(items, tile_.var)) {
      if (k_.stmts[s].kind != Stmt::Kind::kResult) arrays_.insert(s);
    }
  }

  // Vectors of the tile's loop, in all.
  Expr Vectors() const { return width_ == 1 ? tile_.size : Expr::FloorDiv(tile_.size, Expr(width_)); }

  void ChooseThreads() {
    launch_.shared_bytes = launch_.scratch_bytes = Expr(0);
    Expr items(1);
    for (const Loop& loop : outer_) items = items * loop.size;
    const auto threads = (items * Vectors()).constant();
    alone_ = rows_ >= 0 && rows_ <= kFewRows && (rows_ <= kRowsInFlight || !threads || *threads >= kManyThreads);
    alone_ = alone_ || (rows_ >= 0 && rows_ <= kWindowRows && threads && *threads >= kBusyThreads);
    // Turned: by itself where as many threads or rows as that leave nobody waiting, by several where there are rows.
    const auto sharing = Turned("column_threads", 1, kMostThreads / kWarp);
    const bool may = rows_ >= 0 && (rows_ <= kWindowRows || (threads && *threads >= kManyThreads));
    if (sharing && (*sharing == 1 ? may : rows_ > 1)) alone_ = *sharing == 1;
    const int64_t block = Turned("threads", kWarp, MostThreads()).value_or(kBlock);
    if (alone_) {
      launch_.threads_x = block;
      launch_.grid = Expr::CeilDiv(items * Vectors(), Expr(block));
      return;
    }
    const int64_t vectors = Vectors().constant().value_or(kWarp);
    launch_.threads_x = ColumnThreads(vectors);
    launch_.threads_x =
        Turned("columns", launch_.threads_x / 2, std::min(launch_.threads_x * 2, PowerOfTwoFrom(vectors)))
            .value_or(launch_.threads_x);
    launch_.threads_y = std::max<int64_t>(1, block / launch_.threads_x);
    while (rows_ > 0 && launch_.threads_y > 1 && launch_.threads_y / 2 >= rows_) launch_.threads_y /= 2;
    launch_.grid = items * Expr::CeilDiv(Vectors(), Expr(launch_.threads_x));
  }

  // Of a block, whose sums shared memory holds.
  int64_t MostThreads() const {
    int64_t bytes = 4;
    for (const Accumulator& a : k_.accumulators) bytes = std::max(bytes, SlotBytes(a.dtype) + (IsArg(a.op) ? 8 : 0));
    int64_t most = kMostThreads;
    while (most > kBlock && most * width_ * bytes > kMostShared) most /= 2;
    return most;
  }
  static int64_t SlotBytes(ir::DType dtype) { return std::max<int64_t>(4, ir::DTypeSize(dtype)); }

  // 8 to 32 side by side, by which fewest threads have no column; the most of those that are equal.
  static int64_t ColumnThreads(int64_t vectors) {
    if (vectors <= 8) return PowerOfTwoFrom(std::max<int64_t>(1, vectors));
    int64_t best = 32, slots = (vectors + 31) / 32 * 32;
    for (int64_t threads : {16, 8}) {
      int64_t less = (vectors + threads - 1) / threads * threads;
      if (less < slots) best = threads, slots = less;
    }
    return best;
  }

  // Which vector of which item. Threads past the last one repeat it and store nothing, so that all meet at barriers.
  void EmitPlace() {
    const std::string vectors = absl::StrCat("(", Index(Vectors()), ")");
    math_.insert("ph_quotient");
    if (alone_) {
      Expr total = Vectors();
      for (const Loop& loop : outer_) total = total * loop.size;
      Line(absl::StrCat("const long slot = (long)blockIdx.x * ", launch_.threads_x, " + threadIdx.x;"));
      Line(absl::StrCat("const bool live = slot < ", Index(total), ";"));
      Line(absl::StrCat("long q = live ? slot : ", Index(total), " - 1;"));
      Line(absl::StrCat("const long item = ph_quotient(q, ", vectors, ");"));
      Line(absl::StrCat("const long c_first = (q - item * ", vectors, ") * ", width_, ";"));
    } else {
      Line(absl::StrCat("const long tiles = (", vectors, " + ", launch_.threads_x - 1, ") / ", launch_.threads_x, ";"));
      Line("const long item = ph_quotient((long)blockIdx.x, tiles);");
      Line(
          absl::StrCat("const long slot = ((long)blockIdx.x - item * tiles) * ", launch_.threads_x, " + threadIdx.x;"));
      Line(absl::StrCat("const bool live = slot < ", vectors, ";"));
      Line(absl::StrCat("const long c_first = (live ? slot : ", vectors, " - 1) * ", width_, ";"));
      Line("long q;");
    }
    Line("q = item;");
    DefineOuter(outer_);
    if (width_ == 1) Line(absl::StrCat("const long ", tile_.var, " = c_first;"));
  }

  Walk ColumnWalk() const {
    Walk walk;
    walk.inner = tile_.var;
    walk.inner_begin = "c_first";
    walk.width = width_;
    walk.live = "live";
    return walk;
  }

  void OpenLanes() {
    Line("#pragma unroll");
    Open(absl::StrCat("for (int u = 0; u < ", width_, "; ++u)"));
    Line(absl::StrCat("const long ", tile_.var, " = c_first + u;"));
    Line(absl::StrCat("(void)", tile_.var, ";"));
  }

  void EmitStatement(int s) {
    if (!arrays_.count(s)) return Define(s);
    Line(absl::StrCat(TypeName(s), " v", s, "[", width_, "];"));
    OpenLanes();
    Define(s);
    Close();
  }

  // One a column, from the threads that have it first.
  void EmitStore(const Store& store) {
    OpenIf(alone_ ? "" : "threadIdx.y == 0");
    Line(absl::StrCat("const long ", width_ > 1 ? "first" : tile_.var, " = c_first;"));
    EmitElements(ColumnWalk(), Span{{}, {}, {&store}, Expr(0), Expr(1)});
    Close();
  }

  void EmitStage(const Stage& stage) {
    for (int a : stage.accumulators) DeclareColumn(a);
    for (const Piece& piece : stage.pieces) {
      Walk walk = ColumnWalk();
      walk.loops = stage.loops;
      walk.lane = alone_ ? "0" : "threadIdx.y";
      walk.stride = alone_ ? "1" : absl::StrCat(launch_.threads_y);
      walk.in_flight = in_flight_;
      walk.unrolled = alone_ && rows_ > in_flight_ && rows_ <= kUnrolledRows;
      EmitWalk(walk, SpanOf(piece));
    }
    if (!alone_ && !stage.accumulators.empty()) Combine(stage.accumulators);
  }

  void DeclareColumn(int a) {
    if (width_ == 1) return DeclareAccumulators({a});
    const Accumulator& accumulator = k_.accumulators[a];
    Line(absl::StrCat(std::string(SharedType(accumulator.dtype)), " r", a, "[", width_, "];"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i[", width_, "];"));
    OpenLanes();
    Line(absl::StrCat("r", a, "[u] = ", Identity(a), ";"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("r", a, "i[u] = 0;"));
    Close();
  }

  // Rows of threads that a warp holds: those are added by shuffles.
  int64_t RowsAWarp() const {
    if (launch_.threads_x * launch_.threads_y % kWarp != 0) return 1;
    return std::max<int64_t>(1, kWarp / launch_.threads_x);
  }

  void ShuffleRows(int a) {
    if (RowsAWarp() == 1) return;
    Shuffle(a, SharedType(k_.accumulators[a].dtype),
            absl::StrCat("int m = ", launch_.threads_x, "; m < ", launch_.threads_x * RowsAWarp(), "; m *= 2"));
  }

  // Every thread of a column ends with the sum of all, added in one order.
  void Combine(const std::vector<int>& accumulators) {
    for (int a : accumulators) Combine(a);
    head_ = absl::StrCat("  __shared__ __align__(16) char shared[", shared_bytes_, "];\n");
  }

  void Combine(int a) {
    const bool arg = IsArg(k_.accumulators[a].op);
    const std::string type = SharedType(k_.accumulators[a].dtype);
    const int64_t slots = launch_.threads_x * launch_.threads_y * width_;
    // Eight bytes each, but where that is more than a block may have.
    const int64_t each = slots * (arg ? 16 : 8) <= kMostShared ? 8 : SlotBytes(k_.accumulators[a].dtype);
    shared_bytes_ = std::max(shared_bytes_, slots * (each + (arg ? 8 : 0)));
    OpenIf("");
    Line(absl::StrCat(type, "* red = (", type, "*)shared;"));
    if (arg) Line(absl::StrCat("long* redi = (long*)(shared + ", slots * each, ");"));
    ForLanes([&] { Publish(a, arg); });
    Line("__syncthreads();");
    ForLanes([&] { FoldRows(a, arg, type); });
    Line("__syncthreads();");
    Close();
  }

  void ForLanes(const std::function<void()>& body) {
    if (width_ > 1) OpenLanes();
    body();
    if (width_ > 1) Close();
  }

  // Where row y of this thread's column, or of lane u of its vector, stands in shared memory.
  std::string Slot(const std::string& y) const {
    return absl::StrCat("(", y, " * ", width_, width_ > 1 ? " + u" : "", ") * ", launch_.threads_x, " + threadIdx.x");
  }

  // A warp's rows as one.
  void Publish(int a, bool arg) {
    ShuffleRows(a);
    const int64_t rows = RowsAWarp();
    const std::string first = rows > 1 ? absl::StrCat("if (threadIdx.y % ", rows, " == 0) ") : "";
    const std::string slot = Slot(rows > 1 ? absl::StrCat("threadIdx.y / ", rows) : "threadIdx.y");
    Line(absl::StrCat(first, "red[", slot, "] = r", a, lanes_, ";"));
    if (arg) Line(absl::StrCat(first, "redi[", slot, "] = r", a, "i", lanes_, ";"));
  }

  void FoldRows(int a, bool arg, const std::string& type) {
    Line(absl::StrCat("r", a, lanes_, " = red[", Slot("0"), "];"));
    if (arg) Line(absl::StrCat("r", a, "i", lanes_, " = redi[", Slot("0"), "];"));
    Open(absl::StrCat("for (int w = 1; w < ", launch_.threads_y / RowsAWarp(), "; ++w)"));
    Line(absl::StrCat("const ", type, " o = red[", Slot("w"), "];"));
    if (arg) Line(absl::StrCat("const long oi = redi[", Slot("w"), "];"));
    Accumulate(a, "o", "oi");
    Close();
  }

  const Loop tile_;
  const std::vector<Loop> outer_;
  const int64_t in_flight_;  // rows of a thread
  int64_t width_ = 1;
  int64_t rows_ = 0;    // of the longest stage; -1: not known
  bool alone_ = false;  // a thread goes through all rows of its columns
  int64_t shared_bytes_ = 0;
  CudaLaunch launch_;
};

}  // namespace

absl::StatusOr<CudaKernel> EmitColumns(const Kernel& kernel, const Schedule& schedule, const Loop& tile,
                                       const std::vector<Loop>& outer) {
  return ColumnEmitter(kernel, schedule, tile, outer).Run();
}

}  // namespace preheat::codegen
