#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/cpu_text.h"
#include "compiler/codegen/cpu/emitters.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::Op;

namespace {

constexpr int kSumBlock = 128;  // terms of a long sum that are added one by one

// An item is a tile: element "ci" of it is the innermost loop of all. What is computed for an element in one loop over
// the tile and read in another lives in arrays over the tile, as accumulators do.
class TileEmitter : public CpuText {
 public:
  explicit TileEmitter(const Kernel& kernel) : CpuText(kernel) { FindArrays(); }

  absl::StatusOr<EmittedKernel> Run() {
    OpenKernel();
    DeclareArrays();
    OpenItems();
    EmitPlace();
    for (size_t i = 0; i < k_.order.size();) {
      if (k_.order[i].stage) {
        EmitStage(*k_.order[i++].stage);
      } else {
        i = EmitBetweenStages(i);
      }
    }
    CloseKernel();
    return Finish();
  }

 private:
  // --- Arrays over the tile ---

  void FindArrays() {
    bool has_stages = false;
    for (const Item& item : k_.order) {
      has_stages |= item.stage.has_value();
      if (item.stage) FindWide(*item.stage);
    }
    if (!has_stages) return;
    for (size_t s = 0; s < k_.stmts.size(); ++s) {
      if (k_.stmts[s].depth == 1 && k_.stmts[s].kind != Stmt::Kind::kResult) arrays_.insert(static_cast<int>(s));
    }
  }

  void FindWide(const Stage& stage) {
    for (int a : stage.accumulators) {
      const bool blocks = !stage.loops.empty() && SumsInBlocks(a, stage.loops.back());
      if (blocks && k_.accumulators[a].dtype == ir::DType::kF32) wide_.insert(a);
    }
  }

  void DeclareArrays() {
    for (int s : arrays_) Line(absl::StrCat(TypeName(s), " s", s, "[", k_.tile, "];"));
    for (size_t a = 0; a < k_.accumulators.size(); ++a) {
      const Accumulator& accumulator = k_.accumulators[a];
      Line(absl::StrCat(CType(wide_.count(static_cast<int>(a)) != 0 ? ir::DType::kF64 : accumulator.dtype), " r", a,
                        "[", k_.tile, "];"));
      if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i[", k_.tile, "];"));
      if (accumulator.op == Op::kReduceSum && ir::IsFloat(accumulator.dtype)) {
        Line(absl::StrCat(CType(accumulator.dtype), " p", a, "[", k_.tile, "];"));
      }
    }
  }

  std::string Ref(int s) const override {
    if (arrays_.count(s) && !local_.count(s)) return absl::StrCat("s", s, "[ci]");
    if (k_.stmts[s].kind != Stmt::Kind::kResult) return CpuText::Ref(s);
    const std::string result = CpuText::Ref(s) + "[ci]";
    return wide_.count(k_.stmts[s].accumulator) != 0 ? absl::StrCat("((float)", result, ")") : result;
  }

  void DefineElement(int s) {
    Define(s);
    local_.insert(s);
    if (arrays_.count(s)) Line(absl::StrCat("s", s, "[ci] = v", s, ";"));
  }

  // --- Loops over the tile ---

  // Which tile: "c0" is its first element, "cn" how many it has.
  void EmitPlace() {
    const std::string size = Index(k_.tile_loop->size);
    Line("long q = item;");
    Line(absl::StrCat("const long tiles = (", size, " + ", k_.tile - 1, ") / ", k_.tile, ";"));
    Line(absl::StrCat("const long c0 = (q % tiles) * ", k_.tile, ";"));
    Line(absl::StrCat("const long cn = ", size, " - c0 < ", k_.tile, " ? ", size, " - c0 : ", k_.tile, ";"));
    Line("q /= tiles;");
    DefineOuter();
    if (k_.outer.empty()) Line("(void)q;");
  }

  void OpenTile() {
    Line(absl::StrCat("#pragma omp simd", k_.checks ? " reduction(|:bad)" : ""));
    Open("for (long ci = 0; ci < cn; ++ci)");
    Line(absl::StrCat("const long ", k_.tile_loop->var, " = c0 + ci;"));
    Line(absl::StrCat("(void)", k_.tile_loop->var, ";"));
  }

  void CloseTile() {
    Close();
    local_.clear();
  }

  // What is the same for the tile first, then one loop over it. Returns where the next stage is, or the end.
  size_t EmitBetweenStages(size_t start) {
    size_t end = start;
    bool loop = false;
    for (; end < k_.order.size() && !k_.order[end].stage; ++end) {
      const Item& item = k_.order[end];
      if (item.store) {
        loop = true;
      } else if (k_.stmts[item.stmt].depth == 0) {
        Define(item.stmt);
      } else if (k_.stmts[item.stmt].kind != Stmt::Kind::kResult) {
        loop = true;
      }
    }
    if (!loop) return end;
    OpenTile();
    for (size_t i = start; i < end; ++i) {
      const Item& item = k_.order[i];
      if (item.store) EmitStore(*item.store);
      if (!item.store && k_.stmts[item.stmt].depth == 1) DefineElement(item.stmt);
    }
    CloseTile();
    return end;
  }

  // --- Stages ---

  void EmitStage(const Stage& stage) {
    Open("for (long ci = 0; ci < cn; ++ci)");
    for (int a : stage.accumulators) {
      Line(absl::StrCat("r", a, "[ci] = ", Identity(a), ";"));
      if (IsArg(k_.accumulators[a].op)) Line(absl::StrCat("r", a, "i[ci] = 0;"));
    }
    Close();
    for (size_t i = 0; i + 1 < stage.loops.size(); ++i) OpenLoop(stage.loops[i], "0", Index(stage.loops[i].size));
    for (const Piece& piece : stage.pieces) EmitPiece(stage, piece);
    for (size_t i = 0; i + 1 < stage.loops.size(); ++i) Close();
  }

  // Long sums are made of sums of blocks: the error then grows with the square root of what it would (pairwise
  // summation: Higham, "The accuracy of floating point summation", 1993). The blocks are added in f64, which is done so
  // seldom that it costs nothing, and leaves the errors of blocks alone.
  void EmitPiece(const Stage& stage, const Piece& piece) {
    std::vector<int> blocked;
    for (const auto& [a, value] : piece.accumulations) {
      if (!stage.loops.empty() && SumsInBlocks(a, stage.loops.back())) blocked.push_back(a);
    }
    if (blocked.empty()) return EmitPieceLoop(stage, piece, Index(piece.begin), Index(piece.end), "r");
    std::string end = Index(piece.end);
    Open(absl::StrCat("for (long jb = ", Index(piece.begin), "; jb < ", end, "; jb += ", kSumBlock, ")"));
    Line(absl::StrCat("const long je = jb + ", kSumBlock, " < ", end, " ? jb + ", kSumBlock, " : ", end, ";"));
    for (int a : blocked) Line(absl::StrCat("for (long ci = 0; ci < cn; ++ci) p", a, "[ci] = 0;"));
    EmitPieceLoop(stage, piece, "jb", "je", "p");
    for (int a : blocked) Line(absl::StrCat("for (long ci = 0; ci < cn; ++ci) r", a, "[ci] += p", a, "[ci];"));
    Close();
  }

  bool SumsInBlocks(int a, const Loop& loop) const {
    const Accumulator& accumulator = k_.accumulators[a];
    auto size = loop.size.constant();
    return accumulator.op == Op::kReduceSum && ir::IsFloat(accumulator.dtype) && (!size || *size > kSumBlock);
  }

  // `sums`: the prefix of the arrays that block sums go to.
  void EmitPieceLoop(const Stage& stage, const Piece& piece, const std::string& begin, const std::string& end,
                     const std::string& sums) {
    if (!stage.loops.empty()) OpenLoop(stage.loops.back(), begin, end);
    OpenTile();
    for (int s : piece.body) DefineElement(s);
    for (const auto& [a, value] : piece.accumulations) {
      const bool block = sums == "p" && SumsInBlocks(a, stage.loops.back());
      Fold(a, Ref(value), block ? "p" : "r", "[ci]");
    }
    for (const Store& store : piece.stores) EmitStore(store);
    CloseTile();
    if (!stage.loops.empty()) Close();
  }

  std::set<int> arrays_;  // statements "s<s>" over the tile
  std::set<int> local_;   // statements of the tile loop being printed: variables
  std::set<int> wide_;    // accumulators that are f64
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitTiles(const Kernel& kernel) { return TileEmitter(kernel).Run(); }

}  // namespace preheat::codegen
