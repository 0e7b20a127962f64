#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/codegen/block_transpose.h"
#include "compiler/codegen/lowerings.h"
#include "compiler/codegen/stage_builder.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;
using schedule::Flatten;
using schedule::Index;

namespace {

constexpr int kInnerElements = 64;  // a pointwise row is at least this long where the shape allows

// One stage, in the order in which the widest target lies in memory, whose loops become items and tiles.
class PointwiseLowering : private StageBuilder {
 public:
  using StageBuilder::StageBuilder;

  absl::StatusOr<Kernel> Run() {
    Lower();
    return TakeKernel();
  }

 private:
  void Lower() {
    size_t most = 0;
    for (size_t t = 1; t < targets_.size(); ++t) {
      if (Dims(targets_[t].value.shape()) > Dims(targets_[most].value.shape())) most = t;
    }
    std::vector<size_t> order = MemoryOrder(targets_[most]);
    std::vector<Expr> in_order;
    for (size_t d : order) in_order.push_back(targets_[most].value.shape()[d]);
    std::vector<Loop> loops = MakeLoops("j", in_order, 2);
    std::vector<size_t> place(order.size());  // of each dimension's loop, dimensions in their own order
    for (size_t i = 0; i < order.size(); ++i) {
      place[i] = std::count_if(order.begin(), order.end(), [&](size_t d) { return d < order[i]; });
    }
    auto body = [&](const Index& vars, const std::vector<Expr>& sizes, Piece& piece) {
      Index logical(vars.size());
      std::vector<Expr> logical_sizes(vars.size());
      for (size_t i = 0; i < vars.size(); ++i) logical[place[i]] = vars[i], logical_sizes[place[i]] = sizes[i];
      Expr position = Flatten(logical, logical_sizes);
      for (const Target& target : targets_) StoreAt(target, Simplified(position, target.value.shape()), piece.stores);
    };
    Stage stage = BuildStage(loops, body);
    if (!status_.ok()) return;
    Distribute(std::move(stage));
  }

  // The dimensions of more than one element from the one with the longest stride in memory to the one with the
  // shortest.
  static std::vector<size_t> MemoryOrder(const Target& target) {
    std::vector<size_t> order;
    for (size_t d = 0; d < target.value.shape().size(); ++d) {
      if (target.value.shape()[d] != Expr(1)) order.push_back(d);
    }
    bool known = std::all_of(order.begin(), order.end(), [&](size_t d) { return target.strides[d].is_constant(); });
    if (!known) return order;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return *target.strides[a].constant() > *target.strides[b].constant(); });
    return order;
  }

  // The loops of one stage become items, tiles and what is left inside.
  void Distribute(Stage stage) {
    bool whole = stage.loops.size() == 1 && stage.pieces.size() == 1;
    if (stage.loops.empty()) {
      kernel_.extent = 1, kernel_.work = 1;
      MoveToItem(stage);
      return;
    }
    if (whole) {
      kernel_.tile_loop = Loop{stage.loops[0].var, stage.loops[0].size};
      kernel_.tile = TileFor(choices_.flat_tile, stage.loops[0].size);
      kernel_.extent = Expr::CeilDiv(stage.loops[0].size, kernel_.tile);
      kernel_.work = kernel_.tile;
      MoveToItem(stage);
      return;
    }
    if (BlockTranspose(stage, kernel_, choices_.line, choices_.run)) {
      HoistItemStatements(stage);
      kernel_.order.push_back(Item{-1, std::nullopt, std::move(stage)});
      return;
    }
    size_t inner = stage.loops.size() - 1;
    Expr elements = stage.loops[inner].size;
    while (inner > 1 && elements.constant() && *elements.constant() < kInnerElements) {
      --inner;
      elements = elements * stage.loops[inner].size;
    }
    kernel_.extent = 1, kernel_.work = elements;
    for (size_t i = 0; i < inner; ++i) {
      kernel_.outer.push_back(stage.loops[i]);
      kernel_.extent = kernel_.extent * stage.loops[i].size;
    }
    stage.loops.erase(stage.loops.begin(), stage.loops.begin() + inner);
    for (Stmt& stmt : kernel_.stmts)
      stmt.depth = stmt.depth < 2 + static_cast<int>(inner) ? 0 : stmt.depth - static_cast<int>(inner);
    HoistItemStatements(stage);
    kernel_.order.push_back(Item{-1, std::nullopt, std::move(stage)});
  }

  // All statements of a stage without loops (or whose one loop became the tile).
  void MoveToItem(Stage& stage) {
    for (int s : stage.pieces[0].body) {
      kernel_.stmts[s].depth = kernel_.tile_loop && kernel_.stmts[s].depth >= 2 ? 1 : 0;
      kernel_.order.push_back(Item{s, std::nullopt, std::nullopt});
    }
    for (const Store& store : stage.pieces[0].stores) kernel_.order.push_back(Item{-1, store, std::nullopt});
  }

  void HoistItemStatements(Stage& stage) {
    for (Piece& piece : stage.pieces) {
      std::vector<int> inside;
      for (int s : piece.body) {
        if (kernel_.stmts[s].depth >= 2) {
          inside.push_back(s);
        } else {
          kernel_.order.push_back(Item{s, std::nullopt, std::nullopt});
        }
      }
      piece.body = inside;
    }
  }
};

}  // namespace

absl::StatusOr<Kernel> LowerPointwise(const schedule::Region& region, const std::vector<Target>& targets,
                                      const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                      bool copy) {
  return PointwiseLowering(region, targets, strides_of, sizes, choices, copy).Run();
}

}  // namespace preheat::codegen
