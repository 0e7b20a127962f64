#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/emitters.h"
#include "compiler/codegen/cpu/simd_folds.h"
#include "compiler/codegen/cpu/transposed_load.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::DType;

namespace {

// An item after the other, or block of rows after block: what is one value an item is a variable, a stage is its loops,
// the last of which is a vector loop.
class RowEmitter : public SimdFolds {
 public:
  using SimdFolds::SimdFolds;

  absl::StatusOr<EmittedKernel> Run() {
    OpenKernel();
    OpenItems();
    if (!k_.outer.empty()) Line("long q = item;");
    DefineOuter();
    if (k_.rows) {
      EmitBlock();
    } else {
      EmitOrder();
    }
    CloseKernel();
    return Finish();
  }

 private:
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
      const DType storage = k_.buffers[columns.buffer].dtype;
      Line("#pragma omp simd");
      Line(absl::StrCat(
          "for (long c = 0; c < ", Index(array.elements), "; ++c) b", columns.buffer, "[", Index(columns.start),
          " + c] = ", StoreText(absl::StrCat("t", columns.scratch, "[c]"), array.dtype, storage, math_), ";"));
    }
  }

  void EmitOrder() {
    for (const Item& item : k_.order) {
      if (item.stage) {
        EmitStage(*item.stage);
      } else if (item.store) {
        EmitStore(*item.store);
      } else {
        Define(item.stmt);
      }
    }
  }

  void EmitStage(const Stage& stage) {
    if (stage.block_run != 0 && stage.loops.size() == 2) CopyTransposed(stage);
    for (int a : stage.accumulators) {
      const Accumulator& accumulator = k_.accumulators[a];
      if (IsSumOfSums(stage, accumulator)) wide_.insert(a);
      Line(
          absl::StrCat(CType(wide_.count(a) != 0 ? DType::kF64 : accumulator.dtype), " r", a, " = ", Identity(a), ";"));
      if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i = 0;"));
    }
    for (const Piece& piece : stage.pieces) EmitPiece(stage, piece);
  }

  // A vector loop's sum has small errors: a lane adds few numbers. What many of them come to is added in f64, which is
  // done once a loop and costs nothing.
  static bool IsSumOfSums(const Stage& stage, const Accumulator& a) {
    return stage.loops.size() > 1 && a.op == ir::Op::kReduceSum && a.dtype == DType::kF32;
  }

  std::string Ref(int s) const override {
    const Stmt& stmt = k_.stmts[s];
    const bool narrowed = stmt.kind == Stmt::Kind::kResult && wide_.count(stmt.accumulator) != 0;
    return narrowed ? absl::StrCat("((float)", SimdFolds::Ref(s), ")") : SimdFolds::Ref(s);
  }

  // --- Loads across a block ---

  // They are first copied in the last loop's order: cache lines are read once and whole, and the loops below are vector
  // loops.
  void CopyTransposed(const Stage& stage) {
    for (int s : stage.pieces[0].body) {
      if (auto transposed = FindTransposed(stage, k_.stmts[s])) Copy(stage, k_.stmts[s], *transposed);
    }
  }

  void Copy(const Stage& stage, const Stmt& load, const TransposedLoad& transposed) {
    const Loop &line = stage.loops[0], &run = stage.loops[1];
    const std::string u = absl::StrCat("u", copied_.size()), start = Index(transposed.start);
    const std::string place = absl::StrCat(u, "[", stage.block_run, "L * ", line.var, " + ", run.var, "]");
    Line(absl::StrCat(CType(load.dtype), " ", u, "[", stage.block_lines * stage.block_run,
                      "] __attribute__((aligned(64)));"));
    if (k_.buffers[load.buffer].dtype == DType::kF32) {
      helpers_ = kTransposedSource;
      Line(absl::StrCat("phx_transposed(b", load.buffer, " + (", start, "), ", Index(transposed.jump), ", ",
                        Index(run.size), ", ", Index(line.size), ", ", u, ", ", stage.block_run, "L);"));
    } else {
      OpenLoop(run, "0", Index(run.size));
      OpenLoop(line, "0", Index(line.size));
      Line(absl::StrCat(place, " = ", LoadValue(load), ";"));
      Close();
      Close();
    }
    copied_[&load] = place;
  }

  std::string LoadValue(const Stmt& load) override {
    auto copied = copied_.find(&load);
    return copied != copied_.end() ? copied->second : SimdFolds::LoadValue(load);
  }

  // --- Pieces ---

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
  }

  void EmitInnerLoop(const Loop& loop, const Piece& piece, int depth) {
    const int copies = CopiesOf(piece);
    std::string begin = Index(piece.begin), end = Index(piece.end);
    if (copies > 1) {
      auto body = [&](const std::string& suffix) { EmitBody(piece, depth, suffix); };
      begin = EmitCopies(loop, piece, copies, begin, end, body);
    }
    // A vector's lanes are added up one by one, and each step is rounded: to the size of a sum of their own, not of
    // all.
    const bool apart = AddsFloats(piece) && (copies > 1 || depth > 2);
    const std::string suffix = apart ? "_t" : "";
    if (apart) DeclareParts(piece, {suffix});
    EmitSimd(piece, {suffix});
    OpenLoop(loop, begin, end);
    EmitBody(piece, depth, suffix);
    Close();
    if (apart) FoldPart(piece, "", suffix);
  }

  void DefineAt(const Piece& piece, int depth) {
    for (int s : piece.body) {
      if (k_.stmts[s].depth == depth) Define(s);
    }
  }

  // `suffix`: what the names of accumulators end in.
  void EmitBody(const Piece& piece, int depth, const std::string& suffix) {
    DefineAt(piece, depth);
    for (const auto& [a, value] : piece.accumulations) Fold(a, Ref(value), "r", suffix);
    for (const Store& store : piece.stores) EmitStore(store);
    for (const ColumnSum& sum : piece.column_sums) {
      Line(absl::StrCat("t", k_.column_arrays[sum.array].scratch, "[", Index(sum.place), "] += ", Ref(sum.value), ";"));
    }
    for (const Store& store : piece.scratch_stores) {
      Line(absl::StrCat("t", store.buffer, "[", Index(store.index), "] = ", Ref(store.value), ";"));
    }
  }

  std::map<const Stmt*, std::string> copied_;  // loads by what they read instead
  std::set<int> wide_;                         // accumulators that are f64
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitCpuRows(const Kernel& kernel) { return RowEmitter(kernel).Run(); }

}  // namespace preheat::codegen
