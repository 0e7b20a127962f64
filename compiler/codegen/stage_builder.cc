#include "compiler/codegen/stage_builder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;
using schedule::Flatten;
using schedule::Index;
using schedule::Unflatten;

namespace {

constexpr size_t kMaxCuts = 4;

std::set<std::string> LoopVariables(const Kernel& kernel) {
  std::set<std::string> names;
  for (const Loop& loop : kernel.outer) names.insert(loop.var);
  if (kernel.tile_loop) names.insert(kernel.tile_loop->var);
  if (kernel.rows) names.insert(kernel.rows->var);
  for (const Item& item : kernel.order) {
    if (!item.stage) continue;
    for (const Loop& loop : item.stage->loops) names.insert(loop.var);
  }
  return names;
}

// Sizes that the kernel needs at run time, by name.
std::vector<std::string> SymbolsOf(const Kernel& kernel) {
  std::set<std::string> symbols;
  const std::set<std::string> locals = LoopVariables(kernel);
  auto note = [&](const Expr& e) {
    for (const std::string& s : e.Symbols()) {
      if (!locals.count(s) && s[0] != 'x') symbols.insert(s);
    }
  };
  for (const Loop& loop : kernel.outer) note(loop.size);
  for (const ColumnArray& columns : kernel.column_arrays) note(columns.start);
  if (kernel.tile_loop) note(kernel.tile_loop->size);
  for (const Stmt& stmt : kernel.stmts) {
    note(stmt.index), note(stmt.bound);
    for (const Expr& e : stmt.conditions) note(e);
  }
  for (const Accumulator& a : kernel.accumulators) note(a.position);
  for (const ScratchArray& array : kernel.scratch) note(array.offset);
  for (const Item& item : kernel.order) {
    if (item.store) note(item.store->index);
    if (!item.stage) continue;
    for (const Loop& loop : item.stage->loops) note(loop.size);
    for (const Piece& piece : item.stage->pieces) {
      note(piece.begin), note(piece.end);
      for (const Store& store : piece.stores) note(store.index);
    }
  }
  return {symbols.begin(), symbols.end()};
}

}  // namespace

StageBuilder::StageBuilder(const schedule::Region& region, const std::vector<Target>& targets,
                           const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices, bool copy)
    : ScalarBuilder({region.inputs.begin(), region.inputs.end()}, strides_of, sizes, copy),
      region_(region),
      targets_(targets),
      choices_(choices) {
  outer_count_ = region.outer;
  kernel_.copies = choices.copies;
  kernel_.width = choices.width;
}

Index StageBuilder::Simplified(const Expr& position, const std::vector<Expr>& shape) const {
  return Unflatten(ranges_.Simplify(position), shape, ranges_);
}

size_t StageBuilder::Dims(const std::vector<Expr>& shape) {
  return std::count_if(shape.begin(), shape.end(), [](const Expr& e) { return e != Expr(1); });
}

absl::StatusOr<Kernel> StageBuilder::TakeKernel() {
  if (!status_.ok()) return status_;
  kernel_.symbols = SymbolsOf(kernel_);
  return std::move(kernel_);
}

int StageBuilder::TileFor(int most, const Expr& size) const {
  const auto all = size.constant();
  if (!choices_.fit || !all || *all == 0) return most;
  const int64_t tiles = (*all + most - 1) / most;
  return static_cast<int>(((*all + tiles - 1) / tiles + 15) / 16 * 16);
}

std::vector<Loop> StageBuilder::MakeLoops(const std::string& prefix, const std::vector<Expr>& sizes, int depth) {
  std::vector<Loop> loops;
  for (const Expr& size : sizes) {
    if (size == Expr(1)) continue;
    loops.push_back({absl::StrCat(prefix, loops.size()), size});
  }
  Declare(loops, depth);
  return loops;
}

Stage StageBuilder::BuildStage(std::vector<Loop> loops, const Body& body) {
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

// Evaluates once, notes the expressions, and takes everything back.
StageBuilder::Trial StageBuilder::Try(const LoopNest& nest, const std::vector<Expr>& sizes, const Body& body) {
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
    if (IsArg(kernel_.accumulators[accumulator].op)) trial.exprs.push_back(kernel_.accumulators[accumulator].position);
  }
  Restore(before);
  return trial;
}

void StageBuilder::RunBody(const LoopNest& nest, const std::vector<Expr>& sizes, const Body& body, Piece& piece) {
  stage_memo_.clear();
  current_ = &piece;
  inner_ = Flatten(nest.Variables(), sizes);
  pending_.clear();
  body(nest.Variables(), sizes, piece);
  current_ = nullptr;
  for (Store& store : piece.stores) store.depth = DepthOf(store.index);
}

Stage StageBuilder::Finish(const LoopNest& nest, const std::vector<Expr>& sizes, const Body& body, const Trial& trial) {
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

}  // namespace preheat::codegen
