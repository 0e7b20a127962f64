#include "compiler/codegen/lower_region.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/block_transpose.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;
using schedule::Flatten;
using schedule::Index;
using schedule::Unflatten;

namespace {

constexpr int kInnerElements = 64;  // a pointwise row is at least this long where the shape allows
constexpr size_t kMaxCuts = 4;

DType ComputeType(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype; }

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

class RegionLowering {
 public:
  RegionLowering(const schedule::Region& region, const std::vector<Target>& targets, const StridesFn& strides_of,
                 const ir::Ranges& sizes, const Choices& choices, bool copy)
      : region_(region), targets_(targets), strides_of_(strides_of), ranges_(sizes), choices_(choices), copy_(copy) {
    inputs_.insert(region.inputs.begin(), region.inputs.end());
  }

  absl::StatusOr<Kernel> Run() {
    for (const Target& target : targets_) CollectReductions(target.value, true);
    if (region_.kind == schedule::RegionKind::kPointwise) {
      LowerPointwise();
    } else {
      LowerLevels();
    }
    if (!status_.ok()) return status_;
    FinishBuffers();
    return std::move(kernel_);
  }

 private:
  void Fail(absl::string_view what) {
    if (status_.ok()) status_ = absl::InternalError(absl::StrCat("lowering a region: ", what));
  }

  // --- What is in the region ---

  bool Stored(Value value, bool top) const { return inputs_.count(value) && !(top && !copy_); }

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

  // --- Pointwise regions ---

  void LowerPointwise() {
    size_t most = 0;
    for (size_t t = 1; t < targets_.size(); ++t) {
      if (Dims(targets_[t].value.shape()) > Dims(targets_[most].value.shape())) most = t;
    }
    std::vector<Loop> loops = MakeLoops("j", targets_[most].value.shape(), 2);
    auto body = [&](const Index& vars, const std::vector<Expr>& sizes, Piece& piece) {
      Expr position = Flatten(vars, sizes);
      for (const Target& target : targets_) StoreAt(target, Simplified(position, target.value.shape()), piece.stores);
    };
    Stage stage = BuildStage(loops, body);
    if (!status_.ok()) return;
    DistributePointwise(std::move(stage));
  }

  static size_t Dims(const std::vector<Expr>& shape) {
    return std::count_if(shape.begin(), shape.end(), [](const Expr& e) { return e != Expr(1); });
  }

  // The loops of one stage become items, tiles and what is left inside.
  void DistributePointwise(Stage stage) {
    bool whole = stage.loops.size() == 1 && stage.pieces.size() == 1;
    if (stage.loops.empty()) {
      kernel_.extent = 1, kernel_.work = 1;
      MoveToItem(stage);
      return;
    }
    if (whole) {
      kernel_.tile_loop = Loop{stage.loops[0].var, stage.loops[0].size};
      kernel_.tile = choices_.flat_tile;
      kernel_.extent = Expr::CeilDiv(stage.loops[0].size, kernel_.tile);
      kernel_.work = kernel_.tile;
      MoveToItem(stage);
      return;
    }
    if (BlockTranspose(stage, kernel_)) {
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
    for (Stmt& stmt : kernel_.stmts) stmt.depth = stmt.depth < 2 + static_cast<int>(inner) ? 0 : stmt.depth - static_cast<int>(inner);
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

  // --- Regions that reduce ---

  void LowerLevels() {
    ChooseOuter();
    if (region_.kind == schedule::RegionKind::kRow) FindKept();
    int last = 0;
    for (const Target& target : targets_) last = std::max(last, levels_[target.value]);
    for (int level = 1; level <= last + 1 && status_.ok(); ++level) {
      StoreItems(level);
      LowerLevel(level);
    }
  }

  // Costly values that stages of several levels compute: the first one keeps them in scratch memory for the others.
  void FindKept() {
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

  // The place in a row where a kept value's element belongs, if this index is the row's own element.
  std::optional<Expr> PlaceInRow(Value value, const Index& index) const {
    if (!current_ || !kept_.count(value)) return std::nullopt;
    Expr row = Expr::FloorDiv(value.type().NumElements(), region_.outer);
    Expr own = OuterPosition() * row + inner_;
    if (ranges_.Simplify(Flatten(index, value.shape())) != ranges_.Simplify(own)) return std::nullopt;
    return ranges_.Simplify(inner_);
  }

  int LoadKept(Value value, const Expr& place) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kScratch;
    stmt.buffer = scratch_.at(value);
    stmt.dtype = kernel_.scratch[stmt.buffer].dtype;
    stmt.index = place;
    return Push(stmt);
  }

  void Keep(Value value, const Index& index, int id) {
    auto place = PlaceInRow(value, index);
    if (place && kernel_.stmts[id].depth >= 2) pending_.push_back({value, *place, id});
  }

  // A kept value as one body computed it: its place in the row and its statement.
  struct Pending {
    Value value;
    Expr place;
    int id;
  };

  // Gives scratch memory to what the stage just built computed and later ones want.
  void CommitKept(Stage& stage, const std::vector<std::vector<Pending>>& pending) {
    for (size_t p = 0; p < stage.pieces.size(); ++p) {
      for (const Pending& keep : pending[p]) {
        auto [it, fresh] = scratch_.try_emplace(keep.value, static_cast<int>(kernel_.scratch.size()));
        if (fresh) AddScratch(keep.value);
        Store store;
        store.buffer = it->second, store.index = keep.place, store.value = keep.id;
        stage.pieces[p].scratch_stores.push_back(store);
      }
    }
  }

  void AddScratch(Value value) {
    ScratchArray array;
    array.dtype = ComputeType(value.dtype());
    array.elements = Expr::FloorDiv(value.type().NumElements(), region_.outer);
    array.offset = kernel_.scratch_bytes;
    Expr bytes = array.elements * Expr(ir::DTypeSize(array.dtype));
    kernel_.scratch_bytes = kernel_.scratch_bytes + Expr::CeilDiv(bytes, 64) * Expr(64);
    kernel_.scratch.push_back(array);
  }

  // The outer loops: the finest spelling of the rows among all that take part. In a tiled kernel the last kept
  // dimension is the tile.
  void ChooseOuter() {
    std::vector<Expr> finest;
    auto consider = [&](std::vector<Expr> sizes) {
      if (ir::NumElements(sizes) == region_.outer && Dims(sizes) >= Dims(finest)) finest = std::move(sizes);
    };
    for (const Reduction& r : reductions_) consider(r.KeptSizes());
    for (const Target& target : targets_) consider(PrefixSizes(target.value.shape()));
    bool tiled = region_.kind == schedule::RegionKind::kColumn;
    std::vector<Expr> sizes;
    for (const Expr& size : finest) {
      if (size != Expr(1)) sizes.push_back(size);
    }
    if (tiled) {
      Expr last = sizes.empty() ? Expr(1) : sizes.back();
      if (!sizes.empty()) sizes.pop_back();
      kernel_.tile_loop = Loop{"c", last};
      kernel_.tile = choices_.tile;
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
    kernel_.work = tiled ? Expr(kernel_.tile) : Expr(1);
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
      if (r.level == level) group_for(r.ReducedSizes()).reductions.push_back(&r);
    }
    for (const Target& target : targets_) {
      if (levels_[target.value] + 1 != level || target.value.type().NumElements() == region_.outer) continue;
      group_for(InnerSizes(target.value.shape())).targets.push_back(&target);
    }
    for (Group& g : groups) LowerGroup(g.sizes, g.reductions, g.targets);
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
      accumulators.push_back(static_cast<int>(kernel_.accumulators.size()));
      Accumulator a;
      a.op = r->value.node->op();
      a.dtype = ComputeType(r->value.node->operand(0).dtype());
      kernel_.accumulators.push_back(a);
    }
    std::vector<Loop> loops = MakeLoops("j", sizes, 2);
    auto body = [&](const Index& vars, const std::vector<Expr>& var_sizes, Piece& piece) {
      Expr inner = Flatten(vars, var_sizes);
      for (size_t i = 0; i < reductions.size(); ++i) {
        int value = Evaluate(reductions[i]->value.node->operand(0), OperandIndex(*reductions[i], inner), -1, false);
        piece.accumulations.push_back({accumulators[i], value});
        Index at = Simplified(inner, reductions[i]->ReducedSizes());
        if (!at.empty()) kernel_.accumulators[accumulators[i]].position = at[0];
      }
      for (const Target* target : targets) StoreAt(*target, RowIndex(target->value.shape(), inner), piece.stores);
    };
    Stage stage = BuildStage(loops, body);
    if (!status_.ok()) return;
    stage.accumulators = accumulators;
    Expr elements(1);
    for (const Loop& loop : stage.loops) elements = elements * loop.size;
    kernel_.work = kernel_.work + elements * Expr(kernel_.tile_loop ? kernel_.tile : 1);
    kernel_.order.push_back(Item{-1, std::nullopt, std::move(stage)});
    for (size_t i = 0; i < reductions.size(); ++i) AddResult(*reductions[i], accumulators[i]);
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
    Index index(r.kept.size() + r.reduced.size());
    Index kept = Simplified(OuterPosition(), r.KeptSizes());
    Index reduced = Simplified(inner, r.ReducedSizes());
    for (size_t i = 0; i < r.kept.size(); ++i) index[r.kept[i]] = kept[i];
    for (size_t i = 0; i < r.reduced.size(); ++i) index[r.reduced[i]] = reduced[i];
    return index;
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

  Index Simplified(const Expr& position, const std::vector<Expr>& shape) const {
    return Unflatten(ranges_.Simplify(position), shape, ranges_);
  }

  // --- Stages ---

  std::vector<Loop> MakeLoops(const std::string& prefix, const std::vector<Expr>& sizes, int depth) {
    std::vector<Loop> loops;
    for (const Expr& size : sizes) {
      if (size == Expr(1)) continue;
      loops.push_back({absl::StrCat(prefix, loops.size()), size});
    }
    Declare(loops, depth);
    return loops;
  }

  void Declare(const std::vector<Loop>& loops, int depth) {
    for (size_t i = 0; i < loops.size(); ++i) {
      ranges_.Set(loops[i].var, 0, loops[i].size - 1);
      depth_[loops[i].var] = depth == 0 ? 0 : depth + static_cast<int>(i);
    }
  }

  using Key = std::tuple<Value, Index, int>;  // value, index, predicate

  struct Snapshot {
    size_t stmts, order;
    std::map<Key, int> memo;
  };

  using Body = std::function<void(const Index& vars, const std::vector<Expr>& sizes, Piece& piece)>;

  // Evaluates the body over loops, splits loops whose indices divide them, joins those that all indices run through in
  // step, and cuts the last one where conditions change.
  Stage BuildStage(std::vector<Loop> loops, const Body& body) {
    LoopNest nest(std::move(loops));
    std::vector<Expr> sizes = nest.Sizes();
    for (int round = 0; round < 4; ++round) {
      Declare(nest.loops(), 2);
      Trial trial = Try(nest, sizes, body);
      if (!status_.ok()) return {};
      if (round < 3 && nest.Split(trial.exprs)) continue;
      if (nest.Join(trial.exprs)) {
        Declare(nest.loops(), 2);
      }
      return Finish(nest, sizes, body, trial);
    }
    return {};
  }

  struct Trial {
    std::vector<Expr> exprs;       // every index and condition
    std::vector<Expr> conditions;  // conditions only
  };

  // Evaluates once, notes the expressions, and takes everything back.
  Trial Try(const LoopNest& nest, const std::vector<Expr>& sizes, const Body& body) {
    Snapshot before = Save();
    Piece piece;
    RunBody(nest, sizes, body, piece);
    Trial trial;
    for (size_t s = before.stmts; s < kernel_.stmts.size(); ++s) {
      const Stmt& stmt = kernel_.stmts[s];
      if (stmt.kind == Stmt::Kind::kLoad || stmt.kind == Stmt::Kind::kIndex) trial.exprs.push_back(stmt.index);
      for (const Expr& e : stmt.conditions) trial.conditions.push_back(e);
    }
    trial.exprs.insert(trial.exprs.end(), trial.conditions.begin(), trial.conditions.end());
    for (const Store& store : piece.stores) trial.exprs.push_back(store.index);
    for (const auto& [accumulator, value] : piece.accumulations) {
      Op op = kernel_.accumulators[accumulator].op;
      if (op == Op::kArgMax || op == Op::kArgMin) trial.exprs.push_back(kernel_.accumulators[accumulator].position);
    }
    Restore(before);
    return trial;
  }

  void RunBody(const LoopNest& nest, const std::vector<Expr>& sizes, const Body& body, Piece& piece) {
    stage_memo_.clear();
    current_ = &piece;
    inner_ = Flatten(nest.Variables(), sizes);
    pending_.clear();
    body(nest.Variables(), sizes, piece);
    current_ = nullptr;
    for (Store& store : piece.stores) store.depth = DepthOf(store.index);
  }

  Stage Finish(const LoopNest& nest, const std::vector<Expr>& sizes, const Body& body, const Trial& trial) {
    Stage stage;
    stage.loops = nest.loops();
    std::vector<Expr> cuts = {Expr(0)};
    if (!stage.loops.empty()) {
      for (Expr& cut : nest.Cuts(trial.conditions, kMaxCuts)) cuts.push_back(std::move(cut));
    }
    Expr size = stage.loops.empty() ? Expr(1) : stage.loops.back().size;
    cuts.push_back(size);
    std::vector<std::vector<Pending>> pending;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (!stage.loops.empty()) ranges_.Set(stage.loops.back().var, cuts[i], cuts[i + 1] - 1);
      stage.pieces.emplace_back();
      Piece& piece = stage.pieces.back();
      piece.begin = cuts[i], piece.end = cuts[i + 1];
      RunBody(nest, sizes, body, piece);
      pending.push_back(std::move(pending_));
    }
    CommitKept(stage, pending);
    if (!stage.loops.empty()) ranges_.Set(stage.loops.back().var, 0, size - 1);
    stage_memo_.clear();
    return stage;
  }

  // --- Statements ---

  int DepthOf(const Expr& e) const {
    int depth = 0;
    for (const std::string& s : e.Symbols()) {
      auto it = depth_.find(s);
      if (it != depth_.end()) depth = std::max(depth, it->second);
    }
    return depth;
  }

  int Push(Stmt stmt) {
    for (int arg : stmt.args) stmt.depth = std::max(stmt.depth, kernel_.stmts[arg].depth);
    if (stmt.predicate >= 0) stmt.depth = std::max(stmt.depth, kernel_.stmts[stmt.predicate].depth);
    stmt.depth = std::max(stmt.depth, DepthOf(stmt.index));
    for (const Expr& e : stmt.conditions) stmt.depth = std::max(stmt.depth, DepthOf(e));
    int id = static_cast<int>(kernel_.stmts.size());
    if (stmt.depth >= 2 && current_) {
      current_->body.push_back(id);
    } else {
      kernel_.order.push_back(Item{id, std::nullopt, std::nullopt});
    }
    kernel_.stmts.push_back(std::move(stmt));
    return id;
  }

  int Buffer(Value value, DType dtype, bool written) {
    auto [it, fresh] = buffers_.try_emplace({value, written}, static_cast<int>(kernel_.buffers.size()));
    if (fresh) kernel_.buffers.push_back({value, dtype, written});
    return it->second;
  }

  void StoreAt(const Target& target, const Index& index, std::vector<Store>& stores) {
    int value = Evaluate(target.value, index, -1, true);
    Expr offset;
    for (size_t i = 0; i < index.size(); ++i) offset = offset + index[i] * target.strides[i];
    Store store;
    store.buffer = Buffer(target.value, target.value.dtype(), true);
    store.index = ranges_.Simplify(offset);
    store.value = value;
    store.depth = DepthOf(store.index);
    stores.push_back(store);
  }

  int Evaluate(Value value, const Index& index, int predicate, bool top) {
    if (!status_.ok()) return 0;
    Key key{value, index, predicate};
    auto it = memo_.find(key);
    if (it != memo_.end()) return it->second;
    it = stage_memo_.find(key);
    if (it != stage_memo_.end()) return it->second;
    int id;
    auto place = predicate < 0 && scratch_.count(value) ? PlaceInRow(value, index) : std::nullopt;
    if (place) {
      id = LoadKept(value, *place);
    } else {
      id = EvaluateNew(value, index, predicate, top);
      if (status_.ok() && predicate < 0) Keep(value, index, id);
    }
    if (!status_.ok()) return 0;
    MemoFor(key, id)[key] = id;
    return id;
  }

  // What was found inside a stage holds for its piece only, even when it is a constant: pieces decide conditions.
  std::map<Key, int>& MemoFor(const Key& key, int id) {
    int depth = kernel_.stmts[id].depth;
    for (const Expr& e : std::get<1>(key)) depth = std::max(depth, DepthOf(e));
    if (std::get<2>(key) >= 0) depth = std::max(depth, kernel_.stmts[std::get<2>(key)].depth);
    return depth >= 2 ? stage_memo_ : memo_;
  }

  int EvaluateNew(Value value, const Index& index, int predicate, bool top) {
    const Node& node = *value.node;
    if (Stored(value, top)) return Load(value, index, predicate);
    Op op = node.op();
    if (op == Op::kFill) return Constant(node.ScalarAttr("value"), value.dtype());
    if (op == Op::kIota) return IndexValue(index[node.Int("dim")], value.dtype());
    if (op == Op::kSize) return IndexValue(node.ExprAttr("value"), value.dtype());
    if (op == Op::kPad) return Pad(node, index, predicate);
    if (op == Op::kConcat) return Concat(node, index, predicate);
    if (op == Op::kTake || op == Op::kGather) return Indexed(node, index, predicate);
    if (ir::IsView(op)) {
      return Evaluate(node.operand(0), schedule::ThroughView(node, index, ranges_), predicate, false);
    }
    if (ir::IsReduction(op)) {
      auto it = results_.find(value);
      if (it != results_.end()) return it->second;
      Fail("a reduction is needed before its stage");
      return 0;
    }
    if (ir::IsPointwise(op)) return Pointwise(node, index, predicate);
    Fail(absl::StrCat("operator ", std::string(ir::Info(op).name), " has no scalar form"));
    return 0;
  }

  int Load(Value value, const Index& index, int predicate) {
    std::vector<Expr> strides = strides_of_(value);
    Stmt stmt;
    stmt.kind = Stmt::Kind::kLoad;
    stmt.dtype = ComputeType(value.dtype());
    stmt.buffer = Buffer(value, value.dtype(), false);
    for (size_t i = 0; i < index.size(); ++i) stmt.index = stmt.index + index[i] * strides[i];
    stmt.index = ranges_.Simplify(stmt.index);
    stmt.predicate = predicate;
    return Push(stmt);
  }

  int Constant(ir::Scalar value, DType dtype) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kConstant;
    stmt.dtype = ComputeType(dtype);
    stmt.value = value;
    return Push(stmt);
  }

  int IndexValue(const Expr& e, DType dtype) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kIndex;
    stmt.dtype = DType::kI64;
    stmt.index = ranges_.Simplify(e);
    int id = Push(stmt);
    return dtype == DType::kI64 ? id : Cast(id, dtype);
  }

  int Cast(int arg, DType dtype) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kCast;
    stmt.dtype = dtype;  // the declared type: the emitter rounds through bf16 and f16
    stmt.args = {arg};
    return Push(stmt);
  }

  int Pointwise(const Node& node, const Index& index, int predicate) {
    std::vector<int> args;
    for (Value operand : node.operands()) args.push_back(Evaluate(operand, index, predicate, false));
    if (!status_.ok()) return 0;
    if (node.op() == Op::kCast) return Cast(args[0], node.results()[0].dtype);
    Stmt stmt;
    stmt.kind = Stmt::Kind::kOp;
    stmt.dtype = ComputeType(node.results()[0].dtype);
    stmt.op = node.op();
    stmt.args = std::move(args);
    return Push(stmt);
  }

  // The statement "all of these are >= 0", or -1 when that is proved; -2 when it is refuted.
  int Condition(const std::vector<Expr>& conditions, int predicate) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kCondition;
    stmt.dtype = DType::kBool;
    stmt.predicate = predicate;
    for (const Expr& e : conditions) {
      Expr simple = ranges_.Simplify(e);
      if (ranges_.NonNegative(simple)) continue;
      if (ranges_.NonNegative(Expr(-1) - simple)) return -2;
      stmt.conditions.push_back(simple);
    }
    if (stmt.conditions.empty()) return -1;
    return Push(stmt);
  }

  int Select(int condition, int then, int otherwise, DType dtype) {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kOp;
    stmt.op = Op::kWhere;
    stmt.dtype = ComputeType(dtype);
    stmt.args = {condition, then, otherwise};
    return Push(stmt);
  }

  int Pad(const Node& node, const Index& index, int predicate) {
    Index at = schedule::ThroughView(node, index, ranges_);
    DType dtype = node.results()[0].dtype;
    int condition = Condition(schedule::PadCondition(node, at, ranges_), predicate);
    if (condition == -2) return Constant(node.ScalarAttr("value"), dtype);
    if (condition == -1) return Evaluate(node.operand(0), at, predicate, false);
    int inside = Evaluate(node.operand(0), at, condition, false);
    return Select(condition, inside, Constant(node.ScalarAttr("value"), dtype), dtype);
  }

  int Concat(const Node& node, const Index& index, int predicate) {
    int64_t dim = node.Int("dim");
    Expr start(0);
    std::vector<std::pair<int, int>> parts;  // condition, value
    for (Value part : node.operands()) {
      Index at = index;
      at[dim] = ranges_.Simplify(index[dim] - start);
      int condition = Condition({at[dim], part.shape()[dim] - 1 - at[dim]}, predicate);
      start = start + part.shape()[dim];
      if (condition == -2) continue;
      if (condition == -1) return Evaluate(part, at, predicate, false);
      parts.push_back({condition, Evaluate(part, at, condition, false)});
    }
    if (parts.empty()) return Constant(ir::Scalar(int64_t{0}), node.results()[0].dtype);
    int value = parts.back().second;
    for (size_t i = parts.size() - 1; i-- > 0;) {
      value = Select(parts[i].first, parts[i].second, value, node.results()[0].dtype);
    }
    return value;
  }

  int Indexed(const Node& node, const Index& index, int predicate) {
    int64_t dim = node.Int("dim");
    int rank = node.operand(1).type().rank();
    Index at, where;
    if (node.op() == Op::kGather) {
      at = index, where = index;
    } else {
      where.assign(index.begin() + dim, index.begin() + dim + rank);
      at.assign(index.begin(), index.begin() + dim);
      at.push_back(Expr(0));
      at.insert(at.end(), index.begin() + dim + rank, index.end());
    }
    int position = Evaluate(node.operand(1), where, predicate, false);
    if (!status_.ok()) return 0;
    at[dim] = Wrapped(position, node.operand(0).shape()[dim], node, predicate);
    return Evaluate(node.operand(0), at, predicate, false);
  }

  // A checked index as a symbol of its own.
  Expr Wrapped(int position, const Expr& bound, const Node& node, int predicate) {
    Key key{Value{nullptr, position}, {bound}, predicate};
    auto known = memo_.find(key);
    if (known == memo_.end()) {
      known = stage_memo_.find(key);
      if (known == stage_memo_.end()) known = memo_.end();
    }
    int id;
    if (known != memo_.end()) {
      id = known->second;
    } else {
      Stmt stmt;
      stmt.kind = Stmt::Kind::kWrap;
      stmt.dtype = DType::kI64;
      stmt.args = {kernel_.stmts[position].dtype == DType::kI64 ? position : Cast(position, DType::kI64)};
      stmt.bound = bound;
      stmt.predicate = predicate;
      kernel_.checks_indices = true;
      stmt.error_site = static_cast<int>(node.op() == Op::kTake ? ErrorSite::kTake : ErrorSite::kGather);
      id = Push(stmt);
      MemoFor(key, id)[key] = id;
    }
    std::string name = absl::StrCat("x", id);
    ranges_.Set(name, 0, bound - 1);
    depth_[name] = kernel_.stmts[id].depth;
    return Expr::Symbol(name);
  }

  Snapshot Save() const { return {kernel_.stmts.size(), kernel_.order.size(), memo_}; }

  void Restore(const Snapshot& before) {
    kernel_.stmts.resize(before.stmts);
    kernel_.order.resize(before.order);
    memo_ = before.memo;
    stage_memo_.clear();
  }

  std::set<std::string> LoopVariables() const {
    std::set<std::string> names;
    for (const Loop& loop : kernel_.outer) names.insert(loop.var);
    if (kernel_.tile_loop) names.insert(kernel_.tile_loop->var);
    for (const Item& item : kernel_.order) {
      if (!item.stage) continue;
      for (const Loop& loop : item.stage->loops) names.insert(loop.var);
    }
    return names;
  }

  // Sizes that the kernel needs at run time, by name.
  void FinishBuffers() {
    std::set<std::string> symbols;
    const std::set<std::string> locals = LoopVariables();
    auto note = [&](const Expr& e) {
      for (const std::string& s : e.Symbols()) {
        if (!locals.count(s) && s[0] != 'x') symbols.insert(s);
      }
    };
    for (const Loop& loop : kernel_.outer) note(loop.size);
    if (kernel_.tile_loop) note(kernel_.tile_loop->size);
    for (const Stmt& stmt : kernel_.stmts) {
      note(stmt.index), note(stmt.bound);
      for (const Expr& e : stmt.conditions) note(e);
    }
    for (const Accumulator& a : kernel_.accumulators) note(a.position);
    for (const ScratchArray& array : kernel_.scratch) note(array.offset);
    for (const Item& item : kernel_.order) {
      if (item.store) note(item.store->index);
      if (!item.stage) continue;
      for (const Loop& loop : item.stage->loops) note(loop.size);
      for (const Piece& piece : item.stage->pieces) {
        note(piece.begin), note(piece.end);
        for (const Store& store : piece.stores) note(store.index);
      }
    }
    kernel_.symbols.assign(symbols.begin(), symbols.end());
  }

  const schedule::Region& region_;
  const std::vector<Target>& targets_;
  const StridesFn& strides_of_;
  ir::Ranges ranges_;
  Choices choices_;
  bool copy_;
  absl::Status status_;
  std::set<Value> inputs_;
  std::map<Value, int> levels_;
  std::vector<Reduction> reductions_;
  std::map<Value, int> results_;  // a reduction's statement
  std::map<std::string, int> depth_;
  Index outer_index_;
  std::vector<Expr> outer_sizes_;
  std::map<std::pair<Value, bool>, int> buffers_;
  std::map<Key, int> memo_, stage_memo_;  // of depth <= 1, and within the current piece
  std::set<Value> kept_;         // worth keeping in scratch memory
  std::map<Value, int> scratch_;  // kept so far
  std::vector<Pending> pending_;  // computed by the body that runs
  Expr inner_;                    // position in the row, of the body that runs
  Piece* current_ = nullptr;
  Kernel kernel_;
};

}  // namespace

absl::StatusOr<Kernel> LowerRegion(const schedule::Region& region, const std::vector<Target>& targets,
                                   const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                   bool copy) {
  return RegionLowering(region, targets, strides_of, sizes, choices, copy).Run();
}

}  // namespace preheat::codegen
