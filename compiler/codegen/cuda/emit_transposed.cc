#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_steps.h"
#include "compiler/codegen/cuda/emitters.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

constexpr int64_t kStaticBytes = 40 << 10;

// A block of lines and runs (block_transpose.h): loads that jump along the fast variable are copied into shared memory
// along the slow one, by vectors, and read from there across.
class TransposedEmitter : public CudaSteps {
 public:
  TransposedEmitter(const Kernel& kernel, const Schedule& schedule)
      : CudaSteps(kernel, schedule),
        side_(Turned("block", 16, 2 * kTransposeBlock).value_or(kTransposeBlock)),
        threads_(Turned("threads", 64, 512).value_or(kBlock)) {}

  absl::StatusOr<CudaKernel> Run() {
    if (!FindTiles()) return absl::UnimplementedError("nothing is transposed");
    EmitItem();
    for (const Tile& tile : tiles_) Fill(tile);
    Line("__syncthreads();");
    EmitAcross();
    launch_.threads_x = threads_;
    launch_.grid = k_.extent;
    launch_.shared_bytes = launch_.scratch_bytes = Expr(0);
    return Finish(launch_);
  }

 private:
  struct Tile {
    int load;
    int64_t width;  // of the vectors that fill it
    int64_t pitch;  // elements between its rows, which lie along the slow variable
  };

  // An odd number of words between rows: neighbours down a column are in other banks.
  int64_t Pitch(DType dtype) const {
    const int64_t bytes = ir::DTypeSize(dtype);
    return side_ + std::max<int64_t>(1, 4 / bytes);
  }

  bool FindTiles() {
    if (k_.tile_loop || !k_.accumulators.empty()) return false;
    for (const Item& item : k_.order) {
      if (item.stage) stage_ = &*item.stage;
      if (item.store) return false;
    }
    if (stage_ == nullptr || stage_->loops.size() != 2 || stage_->pieces.size() != 1) return false;
    for (const Loop& loop : stage_->loops) {
      auto most = loop.size.constant();
      if (loop.var.size() < 2 || loop.var.substr(loop.var.size() - 2) != "_i" || (most && *most > side_)) return false;
    }
    // The loop that the stores run along is walked fastest.
    const auto& stores = stage_->pieces[0].stores;
    const bool first_fastest = !stores.empty() && std::all_of(stores.begin(), stores.end(), [&](const Store& store) {
      return WalksBy(store.index, stage_->loops[0].var, 1);
    });
    fast_ = stage_->loops[first_fastest ? 0 : 1], slow_ = stage_->loops[first_fastest ? 1 : 0];
    int64_t bytes = 0;
    for (int s : stage_->pieces[0].body) {
      const Stmt& stmt = k_.stmts[s];
      if (stmt.kind != Stmt::Kind::kLoad || Indirect(stmt.index)) continue;
      if (stmt.predicate >= 0 && k_.stmts[stmt.predicate].depth != 0) continue;  // it differs within the block
      if (!WalksBy(stmt.index, slow_.var, 1)) continue;
      auto along = schedule::LinearIn(stmt.index, fast_.var);
      if (!along || along->first == Expr(0) || along->first == Expr(1)) continue;
      const DType dtype = k_.buffers[stmt.buffer].dtype;
      const int64_t more = ir::DTypeSize(dtype) * side_ * Pitch(dtype);
      if (bytes + more > kStaticBytes) continue;
      bytes += more;
      tiles_.push_back({s, FillWidth(stmt), Pitch(dtype)});
    }
    return !tiles_.empty() || !IsWhole();
  }

  // Are all blocks as large? If not, their loops cannot be made one with those over blocks.
  bool IsWhole() const {
    return std::all_of(stage_->loops.begin(), stage_->loops.end(), [&](const Loop& loop) {
      const auto symbols = loop.size.Symbols();
      return std::none_of(k_.outer.begin(), k_.outer.end(),
                          [&](const Loop& outer) { return symbols.count(outer.var) != 0; });
    });
  }

  static bool Indirect(const Expr& e) {
    const auto symbols = e.Symbols();
    return std::any_of(symbols.begin(), symbols.end(), [](const std::string& v) { return v[0] == 'x'; });
  }

  int64_t FillWidth(const Stmt& load) const {
    const int64_t bytes = ir::DTypeSize(k_.buffers[load.buffer].dtype);
    for (int64_t width = std::min<int64_t>(8, 16 / bytes); width * bytes >= 4 && width > 1; width /= 2) {
      if (WalksBy(load.index, slow_.var, width) && Divisible(slow_.size, width)) return width;
    }
    return 1;
  }

  void EmitItem() {
    Line("const long item = blockIdx.x;");
    Line("long q = item;");
    DefineOuter(k_.outer);
    for (const Item& item : k_.order) {
      if (item.stmt >= 0 && !item.stage) Define(item.stmt);
    }
    Line(absl::StrCat("const int fast_size = (int)(", Index(fast_.size), "), slow_size = (int)(", Index(slow_.size),
                      ");"));
  }

  // Rows of the tile run along the slow variable, as the load does.
  void Fill(const Tile& tile) {
    const Stmt& stmt = k_.stmts[tile.load];
    const DType dtype = k_.buffers[stmt.buffer].dtype;
    const std::string type(StorageType(dtype)), name = absl::StrCat("tile", tile.load);
    absl::StrAppend(&head_, "  __shared__ __align__(16) ", type, " ", name, "[", side_ * tile.pitch, "];\n");
    const int64_t bytes = ir::DTypeSize(dtype), width = tile.width;
    // Enough threads along a row for a whole one; rows below each other.
    const int64_t across = side_ / width, down = threads_ / across;
    if (stmt.predicate >= 0) OpenIf(Ref(stmt.predicate));
    Line("#pragma unroll");
    Open(absl::StrCat("for (int k = 0; k < ", std::max<int64_t>(1, side_ / down), "; ++k)"));
    Line(absl::StrCat("const int down = k * ", down, " + threadIdx.x / ", across, ", across = threadIdx.x % ", across,
                      " * ", width, ";"));
    OpenIf("down < fast_size && across < slow_size");
    Line(absl::StrCat("const long ", slow_.var, " = across, ", fast_.var, " = down;"));
    Line(absl::StrCat("const ", type, "* from = b", stmt.buffer, " + (", Index(stmt.index), ");"));
    Line(absl::StrCat(type, "* to = ", name, " + down * ", tile.pitch, " + across;"));
    if (width == 1) {
      Line("*to = *from;");
    } else {
      FillVector(stmt.buffer, width * bytes, width);
    }
    Close();
    Close();
    if (stmt.predicate >= 0) Close();
  }

  // Words at a time into shared memory: rows there begin at any word.
  void FillVector(int buffer, int64_t bytes, int64_t width) {
    aligned_[buffer] = std::max(aligned_[buffer], bytes);
    const char* memory = bytes == 16 ? "uint4" : bytes == 8 ? "uint2" : "unsigned";
    OpenIf("aligned");
    Line(absl::StrCat("const ", memory, " w = *(const ", memory, "*)from;"));
    if (bytes == 4) {
      Line("*(unsigned*)to = w;");
    } else {
      Line("((unsigned*)to)[0] = w.x, ((unsigned*)to)[1] = w.y;");
      if (bytes == 16) Line("((unsigned*)to)[2] = w.z, ((unsigned*)to)[3] = w.w;");
    }
    Close();
    Open("else");
    Line(absl::StrCat("for (int u = 0; u < ", width, "; ++u) to[u] = from[u];"));
    Close();
  }

  void EmitAcross() {
    Span span = SpanOf(stage_->pieces[0]);
    span.begin = Expr(0), span.end = fast_.size;
    for (const Tile& tile : tiles_) {
      fetched_[tile.load] =
          absl::StrCat("tile", tile.load, "[(int)", fast_.var, " * ", tile.pitch, " + (int)", slow_.var, "]");
    }
    Walk walk;
    walk.loops = {slow_, fast_};
    walk.inner = fast_.var;
    walk.width = ChooseWidth(fast_.var, {&span}, {fast_.size});
    walk.lane = "threadIdx.x";
    walk.stride = absl::StrCat(threads_);
    walk.in_flight = Turned("steps", 1, 8).value_or(walk.width > 1 ? 2 : 4);
    EmitWalk(walk, span);
  }

  const int64_t side_;  // of a block, in elements
  const int64_t threads_;
  const Stage* stage_ = nullptr;
  Loop fast_, slow_;
  std::vector<Tile> tiles_;
  CudaLaunch launch_;
};

}  // namespace

absl::StatusOr<CudaKernel> EmitTransposed(const Kernel& kernel, const Schedule& schedule) {
  return TransposedEmitter(kernel, schedule).Run();
}

}  // namespace preheat::codegen
