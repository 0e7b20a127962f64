#include "compiler/codegen/block_transpose.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int64_t kLeast = 8;  // elements of a loop worth blocks

// The loop along which some load is contiguous while it jumps along the last one.
std::optional<size_t> TransposedLoop(const Stage& stage, const Kernel& kernel) {
  const std::string& last = stage.loops.back().var;
  for (const Stmt& stmt : kernel.stmts) {
    if (stmt.kind != Stmt::Kind::kLoad) continue;
    auto along_last = schedule::LinearIn(stmt.index, last);
    if (!along_last || along_last->first == Expr(0) || along_last->first == Expr(1)) continue;
    for (size_t i = 0; i + 1 < stage.loops.size(); ++i) {
      auto along = schedule::LinearIn(stmt.index, stage.loops[i].var);
      if (along && along->first == Expr(1)) return i;
    }
  }
  return std::nullopt;
}

bool LongEnough(const Loop& loop, int64_t least) {
  auto size = loop.size.constant();
  return !size || *size >= least;
}

struct Blocked {
  Loop block, within;
  Expr value;  // of the original variable
};

Blocked Split(const Loop& loop, int64_t size) {
  if (auto all = loop.size.constant()) size = std::min(size, *all);
  Loop block{loop.var + "_b", Expr::CeilDiv(loop.size, size)};
  Expr start = Expr::Symbol(block.var) * Expr(size);
  bool whole = Expr::Mod(loop.size, Expr(size)) == Expr(0);
  Loop within{loop.var + "_i", whole ? Expr(size) : Expr::Min(Expr(size), loop.size - start)};
  Expr value = start + Expr::Symbol(within.var);
  return {std::move(block), std::move(within), std::move(value)};
}

void Substitute(Stage& stage, Kernel& kernel, const std::map<std::string, Expr>& with) {
  for (Stmt& stmt : kernel.stmts) {
    stmt.index = stmt.index.Substitute(with);
    for (Expr& e : stmt.conditions) e = e.Substitute(with);
  }
  for (Store& store : stage.pieces[0].stores) store.index = store.index.Substitute(with);
}

// Depths anew: 2 for the first loop of the stage, 3 for the second, 0 for what depends on neither.
void PlaceStatements(const Stage& stage, Kernel& kernel) {
  auto depth_of = [&](const Expr& e) {
    int depth = 0;
    for (const std::string& s : e.Symbols()) {
      for (size_t i = 0; i < stage.loops.size(); ++i) {
        if (s == stage.loops[i].var) depth = std::max(depth, 2 + static_cast<int>(i));
      }
      if (s[0] == 'x') depth = std::max(depth, kernel.stmts[std::stoi(s.substr(1))].depth);
    }
    return depth;
  };
  for (Stmt& stmt : kernel.stmts) {
    stmt.depth = depth_of(stmt.index);
    for (const Expr& e : stmt.conditions) stmt.depth = std::max(stmt.depth, depth_of(e));
    for (int arg : stmt.args) stmt.depth = std::max(stmt.depth, kernel.stmts[arg].depth);
    if (stmt.predicate >= 0) stmt.depth = std::max(stmt.depth, kernel.stmts[stmt.predicate].depth);
  }
}

}  // namespace

bool BlockTranspose(Stage& stage, Kernel& kernel, int64_t line_size, int64_t run_size) {
  if (stage.loops.size() < 2 || stage.pieces.size() != 1 || !stage.accumulators.empty()) return false;
  std::optional<size_t> transposed = TransposedLoop(stage, kernel);
  if (!transposed) return false;
  if (!LongEnough(stage.loops[*transposed], kLeast) || !LongEnough(stage.loops.back(), kLeast)) return false;
  Blocked line = Split(stage.loops[*transposed], line_size), run = Split(stage.loops.back(), run_size);
  Substitute(stage, kernel, {{stage.loops[*transposed].var, line.value}, {stage.loops.back().var, run.value}});
  for (size_t i = 0; i + 1 < stage.loops.size(); ++i) {
    if (i != *transposed) kernel.outer.push_back(stage.loops[i]);
  }
  kernel.outer.push_back(line.block);
  kernel.outer.push_back(run.block);
  kernel.extent = 1;
  for (const Loop& loop : kernel.outer) kernel.extent = kernel.extent * loop.size;
  auto at_most = [](const Loop& loop, int64_t size) { return std::min(size, loop.size.constant().value_or(size)); };
  stage.block_lines = at_most(stage.loops[*transposed], line_size);
  stage.block_run = at_most(stage.loops.back(), run_size);
  kernel.work = stage.block_lines * stage.block_run;
  stage.loops = {line.within, run.within};
  stage.pieces[0].end = run.within.size;
  PlaceStatements(stage, kernel);
  return true;
}

}  // namespace preheat::codegen
