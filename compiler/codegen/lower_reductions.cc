#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/codegen/lowerings.h"
#include "compiler/codegen/stage_builder.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;
using schedule::Flatten;
using schedule::Index;

namespace {

std::vector<int64_t> ReducedDims(const Node& node) {
  if (node.Has("dims")) return node.Ints("dims");
  return {node.Int("dim")};
}

// A reduction split into what is kept and what is looped over.
struct Reduction {
  Value value;
  int level = 0;
  std::vector<size_t> kept, reduced;  // dimensions of the operand
  std::vector<Expr> KeptSizes() const { return Sizes(kept); }
  std::vector<Expr> ReducedSizes() const { return Sizes(reduced); }

 private:
  std::vector<Expr> Sizes(const std::vector<size_t>& dims) const {
    std::vector<Expr> sizes;
    for (size_t d : dims) sizes.push_back(value.node->operand(0).shape()[d]);
    return sizes;
  }
};

// Items are the rows that all reductions of the region keep. Within one, reductions go level by level: those of a level
// need only results of the levels before.
class ReductionLowering : private StageBuilder {
 public:
  // `kept_sizes`: not empty: the outer loops' sizes, the tile's last.
  ReductionLowering(const schedule::Region& region, const std::vector<Target>& targets, const StridesFn& strides_of,
                    const ir::Ranges& sizes, const Choices& choices, bool copy, std::vector<Expr> kept_sizes)
      : StageBuilder(region, targets, strides_of, sizes, choices, copy), kept_sizes_(std::move(kept_sizes)) {}

  absl::StatusOr<Kernel> Run() {
    for (const Target& target : targets_) CollectReductions(target.value, true);
    LowerLevels();
    return TakeKernel();
  }

 private:
  // --- What is in the region ---

  int CollectReductions(Value value, bool top) {
    if (Stored(value, top)) return 0;
    auto it = levels_.find(value);
    if (it != levels_.end()) return it->second;
    int level = 0;
    for (Value operand : value.node->operands()) level = std::max(level, CollectReductions(operand, false));
    if (ir::IsReduction(value.node->op())) {
      ++level;
      Reduction r{value, level, {}, {}};
      std::vector<int64_t> dims = ReducedDims(*value.node);
      for (size_t i = 0; i < value.node->operand(0).shape().size(); ++i) {
        bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) != dims.end();
        (reduced ? r.reduced : r.kept).push_back(i);
      }
      reductions_.push_back(r);
    }
    levels_[value] = level;
    return level;
  }

  // --- Levels ---

  void LowerLevels() {
    ChooseOuter();
    if (region_.kind == schedule::RegionKind::kRow) FindKept();
    int last = 0;
    for (const Target& target : targets_) last = std::max(last, levels_[target.value]);
    for (int level = 1; level <= last + 1 && status_.ok(); ++level) {
      StoreItems(level);
      LowerLevel(level);
    }
    if (kernel_.rows) kernel_.work = kernel_.work * kernel_.rows->size;
  }

  // Costly values that stages of several levels compute: the first one keeps them in scratch memory for the others.
  void FindKept() {
    if (!choices_.keep) return;
    std::map<Value, std::set<int>> levels;
    for (const Reduction& r : reductions_) NoteLevel(r.value.node->operand(0), r.level, levels);
    for (const Target& target : targets_) NoteLevel(target.value, levels_[target.value] + 1, levels);
    for (const auto& [value, in] : levels) {
      if (in.size() > 1 && IsFunction(value.node->op())) kept_.insert(value);
    }
  }

  void NoteLevel(Value value, int level, std::map<Value, std::set<int>>& levels) {
    if (inputs_.count(value) || ir::IsReduction(value.node->op())) return;
    if (!levels[value].insert(level).second) return;
    for (Value operand : value.node->operands()) NoteLevel(operand, level, levels);
  }

  static bool IsFunction(Op op) { return (op >= Op::kExp && op <= Op::kErfc) || op == Op::kPow || op == Op::kAtan2; }

  // The outer loops: the finest spelling of the rows among all that take part. In a tiled kernel the last kept
  // dimension is the tile.
  void ChooseOuter() {
    std::vector<Expr> finest;
    auto consider = [&](std::vector<Expr> sizes) {
      if (ir::NumElements(sizes) == region_.outer && Dims(sizes) >= Dims(finest)) finest = std::move(sizes);
    };
    for (const Reduction& r : reductions_) consider(r.KeptSizes());
    for (const Target& target : targets_) consider(PrefixSizes(target.value.shape()));
    if (!kept_sizes_.empty()) finest = kept_sizes_;
    if (region_.block != 0) finest = {Expr::FloorDiv(region_.outer, region_.block), Expr(region_.block)};
    bool tiled = region_.kind == schedule::RegionKind::kColumn;
    std::vector<Expr> sizes;
    for (const Expr& size : finest) {
      if (size != Expr(1)) sizes.push_back(size);
    }
    if (tiled) {
      Expr last = sizes.empty() ? Expr(1) : sizes.back();
      if (!sizes.empty()) sizes.pop_back();
      kernel_.tile_loop = Loop{"c", last};
      kernel_.tile = TileFor(choices_.tile, last);
    }
    kernel_.outer = MakeLoops("a", sizes, 0);
    for (const Loop& loop : kernel_.outer) outer_index_.push_back(Expr::Symbol(loop.var));
    for (const Loop& loop : kernel_.outer) outer_sizes_.push_back(loop.size);
    kernel_.extent = ir::NumElements(outer_sizes_);
    if (tiled) {
      ranges_.Set("c", 0, kernel_.tile_loop->size - 1);
      depth_["c"] = 1;
      outer_index_.push_back(Expr::Symbol("c"));
      outer_sizes_.push_back(kernel_.tile_loop->size);
      kernel_.extent = kernel_.extent * Expr::CeilDiv(kernel_.tile_loop->size, kernel_.tile);
    }
    outer_position_ = OuterPosition();
    kernel_.work = tiled ? Expr(kernel_.tile) : Expr(1);
    if (region_.block != 0) MakeBlocks();
  }

  // The leading dimensions of a shape that make up the rows; empty when none do.
  std::vector<Expr> PrefixSizes(const std::vector<Expr>& shape) const {
    std::vector<Expr> prefix;
    Expr product(1);
    for (const Expr& size : shape) {
      if (product == region_.outer && size != Expr(1)) break;
      prefix.push_back(size);
      product = product * size;
    }
    return product == region_.outer ? prefix : std::vector<Expr>{};
  }

  Expr OuterPosition() const { return Flatten(outer_index_, outer_sizes_); }

  // Outputs with one element an item (or tile element).
  void StoreItems(int level) {
    for (const Target& target : targets_) {
      if (levels_[target.value] + 1 != level || target.value.type().NumElements() != region_.outer) continue;
      if (IsBlockSum(target.value)) continue;
      std::vector<Store> stores;
      StoreAt(target, Simplified(OuterPosition(), target.value.shape()), stores);
      for (const Store& store : stores) kernel_.order.push_back(Item{-1, store, std::nullopt});
    }
  }

  // One stage for each inner extent: the reductions of this level and the stores whose reductions are all done.
  void LowerLevel(int level) {
    struct Group {
      std::vector<Expr> sizes;
      std::vector<const Reduction*> reductions;
      std::vector<const Target*> targets;
    };
    std::vector<Group> groups;
    auto group_for = [&](std::vector<Expr> sizes) -> Group& {
      for (Group& g : groups) {
        if (ir::NumElements(g.sizes) != ir::NumElements(sizes)) continue;
        if (Dims(sizes) > Dims(g.sizes)) g.sizes = sizes;
        return g;
      }
      groups.push_back({std::move(sizes), {}, {}});
      return groups.back();
    };
    for (const Reduction& r : reductions_) {
      if (r.level == level) group_for(InnerSizes(r)).reductions.push_back(&r);
    }
    for (const Target& target : targets_) {
      if (levels_[target.value] + 1 != level || target.value.type().NumElements() == region_.outer) continue;
      if (IsBlockSum(target.value)) continue;  // FinishColumns
      group_for(InnerSizes(target.value.shape())).targets.push_back(&target);
    }
    for (Group& g : groups) LowerGroup(g.sizes, g.reductions, g.targets);
  }

  // --- Sums over the rows of a block ---

  bool IsBlockSum(Value value) const { return region_.block != 0 && schedule::IsBlockSum(*value.node); }

  std::vector<Expr> InnerSizes(const Reduction& r) const {
    return IsBlockSum(r.value) ? std::vector<Expr>{r.value.shape().back()} : r.ReducedSizes();
  }

  // The loop over a block's rows goes inside the item.
  void MakeBlocks() {
    kernel_.rows = kernel_.outer.back();
    kernel_.outer.pop_back();
    kernel_.extent = kernel_.outer[0].size;
    for (const Target& target : targets_) {
      if (IsBlockSum(target.value)) AddColumns(target);
    }
  }

  void AddColumns(const Target& target) {
    ColumnArray columns;
    columns.scratch = AddScratchArray(target.value.dtype(), target.value.shape().back());
    columns.buffer = Buffer(target.value, target.value.dtype(), true);
    columns.start = Expr::Symbol(kernel_.outer[0].var) * target.strides[0];
    if (target.strides[1] != Expr(1)) Fail("sums of columns are stored with gaps");
    columns_[target.value] = static_cast<int>(kernel_.column_arrays.size());
    kernel_.column_arrays.push_back(columns);
  }

  std::vector<Expr> InnerSizes(const std::vector<Expr>& shape) const {
    std::vector<Expr> prefix = PrefixSizes(shape);
    if (prefix.empty() && region_.outer != Expr(1)) {
      return {Expr::FloorDiv(ir::NumElements(shape), region_.outer)};
    }
    return {shape.begin() + prefix.size(), shape.end()};
  }

  void LowerGroup(const std::vector<Expr>& sizes, const std::vector<const Reduction*>& reductions,
                  const std::vector<const Target*>& targets) {
    std::vector<int> accumulators;
    for (const Reduction* r : reductions) {
      if (IsBlockSum(r->value)) continue;
      accumulators.push_back(static_cast<int>(kernel_.accumulators.size()));
      Accumulator a;
      a.op = r->value.node->op();
      a.dtype = ComputeType(r->value.node->operand(0).dtype());
      kernel_.accumulators.push_back(a);
    }
    std::vector<Loop> loops = MakeLoops("j", sizes, 2);
    auto body = [&](const Index& vars, const std::vector<Expr>& var_sizes, Piece& piece) {
      Expr inner = Flatten(vars, var_sizes);
      size_t next = 0;
      for (const Reduction* r : reductions) {
        int value = Evaluate(r->value.node->operand(0), OperandIndex(*r, inner), -1, false);
        if (IsBlockSum(r->value)) {
          piece.column_sums.push_back({columns_.at(r->value), ranges_.Simplify(inner), value});
          continue;
        }
        const int accumulator = accumulators[next++];
        piece.accumulations.push_back({accumulator, value});
        Index at = Simplified(inner, r->ReducedSizes());
        if (!at.empty()) kernel_.accumulators[accumulator].position = at[0];
      }
      for (const Target* target : targets) StoreAt(*target, TargetIndex(target->value.shape(), inner), piece.stores);
    };
    Stage stage = BuildStage(loops, body);
    if (!status_.ok()) return;
    stage.accumulators = accumulators;
    Expr elements(1);
    for (const Loop& loop : stage.loops) elements = elements * loop.size;
    kernel_.work = kernel_.work + elements * Expr(kernel_.tile_loop ? kernel_.tile : 1);
    kernel_.order.push_back(Item{-1, std::nullopt, std::move(stage)});
    size_t next = 0;
    for (const Reduction* r : reductions) {
      if (!IsBlockSum(r->value)) AddResult(*r, accumulators[next++]);
    }
  }

  void AddResult(const Reduction& r, int accumulator) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kResult;
    stmt.dtype = ComputeType(r.value.dtype());
    stmt.accumulator = accumulator;
    stmt.depth = kernel_.tile_loop ? 1 : 0;
    results_[r.value] = Push(stmt);
  }

  Index OperandIndex(const Reduction& r, const Expr& inner) {
    if (IsBlockSum(r.value)) return {outer_index_[0], outer_index_[1], inner};
    Index index(r.kept.size() + r.reduced.size());
    Index kept = Simplified(OuterPosition(), r.KeptSizes());
    Index reduced = Simplified(inner, r.ReducedSizes());
    for (size_t i = 0; i < r.kept.size(); ++i) index[r.kept[i]] = kept[i];
    for (size_t i = 0; i < r.reduced.size(); ++i) index[r.reduced[i]] = reduced[i];
    return index;
  }

  // A target with the elements that a reduction over other than its last dimensions reads is stored in that reduction's
  // order, so that each element is computed once for both; any other one row by row.
  Index TargetIndex(const std::vector<Expr>& shape, const Expr& inner) {
    for (const Reduction& r : reductions_) {
      const std::vector<Expr>& operand = r.value.node->operand(0).shape();
      if (KeepsLeading(r) || ir::NumElements(operand) != ir::NumElements(shape)) continue;
      Index index = OperandIndex(r, inner);
      return operand == shape ? index : Simplified(Flatten(index, operand), shape);
    }
    return RowIndex(shape, inner);
  }

  static bool KeepsLeading(const Reduction& r) {
    size_t last_kept = 0, first_reduced = r.kept.size() + r.reduced.size();
    const std::vector<Expr>& shape = r.value.node->operand(0).shape();
    for (size_t d : r.kept) last_kept = shape[d] == Expr(1) ? last_kept : std::max(last_kept, d + 1);
    for (size_t d : r.reduced) first_reduced = shape[d] == Expr(1) ? first_reduced : std::min(first_reduced, d);
    return last_kept <= first_reduced;
  }

  Index RowIndex(const std::vector<Expr>& shape, const Expr& inner) {
    std::vector<Expr> prefix = PrefixSizes(shape);
    if (prefix.empty() && region_.outer != Expr(1)) {
      Expr row = Expr::FloorDiv(ir::NumElements(shape), region_.outer);
      return Simplified(OuterPosition() * row + inner, shape);
    }
    Index index = Simplified(OuterPosition(), prefix);
    std::vector<Expr> rest(shape.begin() + prefix.size(), shape.end());
    Index within = Simplified(inner, rest);
    index.insert(index.end(), within.begin(), within.end());
    return index;
  }

  const std::vector<Expr> kept_sizes_;
  std::map<Value, int> levels_;
  std::vector<Reduction> reductions_;
  std::map<Value, int> columns_;  // sums over the rows of a block, by column array
  Index outer_index_;
  std::vector<Expr> outer_sizes_;
};

}  // namespace

absl::StatusOr<Kernel> LowerReductions(const schedule::Region& region, const std::vector<Target>& targets,
                                       const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                       bool copy, std::vector<Expr> kept_sizes) {
  return ReductionLowering(region, targets, strides_of, sizes, choices, copy, std::move(kept_sizes)).Run();
}

}  // namespace preheat::codegen
