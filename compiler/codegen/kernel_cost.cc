#include "compiler/codegen/kernel_cost.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;
using ir::Op;

namespace {

// In simple operations on an element of a vector of f32: adding, loading or storing it beside its neighbours.
constexpr double kNanoseconds = 0.01;  // of one
constexpr double kFunction = 40;       // exp, erf, sin
constexpr double kDivision = 8;        // and roots
constexpr double kApart = 30;          // a load or store whose neighbours lie apart, or somewhere
constexpr double kCopied = 15;         // one that a block copies beforehand (block_transpose.h)
constexpr double kAlone = 16;          // done for no vector but once: what a vector's lanes would share
constexpr double kLoop = 60;           // to start and end the innermost loop
constexpr double kFold = 1000;         // to add up the lanes of a vector, which the next stage waits for
// Of nodes that are no loops over expressions (scan, sort, scatter), an element.
constexpr double kNodeElement = 30;

double OpCost(Op op) {
  if ((op >= Op::kExp && op <= Op::kErfc) || op == Op::kPow || op == Op::kAtan2) return kFunction;
  switch (op) {
    case Op::kDiv:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kReciprocal:
    case Op::kFloorDiv:
    case Op::kMod:
    case Op::kFmod: return kDivision;
    default: return 1;
  }
}

double Lanes(ir::DType dtype) { return static_cast<double>(ir::DTypeSize(dtype)) / 4; }

class Estimate {
 public:
  explicit Estimate(const Kernel& kernel) : k_(kernel) {}

  std::optional<double> Run() {
    if (k_.order.empty()) return NodeCost();
    double cost = 0;
    for (const Item& item : k_.order) {
      if (item.stage) {
        cost += StageCost(*item.stage);
      } else if (item.store) {
        cost += BetweenStages(item.store->depth, StoreCost(*item.store, TileVar()));
      } else {
        cost += BetweenStages(k_.stmts[item.stmt].depth, StmtCost(k_.stmts[item.stmt], TileVar()));
      }
    }
    if (k_.rows) cost *= SizeOf(k_.rows->size);
    if (!known_) return std::nullopt;
    return cost * kNanoseconds;
  }

 private:
  std::optional<double> NodeCost() {
    const double cost = SizeOf(k_.work) * kNodeElement * kNanoseconds;
    return known_ ? std::optional<double>(cost) : std::nullopt;
  }

  double SizeOf(const Expr& size) {
    const auto constant = size.constant();
    known_ &= constant.has_value();
    return static_cast<double>(std::max<int64_t>(0, constant.value_or(0)));
  }

  // Elements of a tile, of the last one where there is only one.
  double TileSize() const {
    if (!k_.tile_loop) return 1;
    return static_cast<double>(std::min<int64_t>(k_.tile, k_.tile_loop->size.constant().value_or(k_.tile)));
  }
  std::string TileVar() const { return k_.tile_loop ? k_.tile_loop->var : ""; }

  double BetweenStages(int depth, double cost) const { return cost * (depth == 0 ? kAlone : TileSize()); }

  double Step(const Expr& index, const std::string& vector) const {
    if (vector.empty()) return 1;
    const auto linear = schedule::LinearIn(index, vector);
    if (linear && linear->first == Expr(0)) return 0;  // one for all lanes
    return linear && linear->first == Expr(1) ? 1 : apart_;
  }

  double StoreCost(const Store& store, const std::string& vector) const {
    return std::max(1.0, Step(store.index, vector)) * Lanes(k_.buffers[store.buffer].dtype);
  }

  // `vector`: the variable of the vector loop around it.
  double StmtCost(const Stmt& stmt, const std::string& vector) const {
    switch (stmt.kind) {
      case Stmt::Kind::kConstant:
      case Stmt::Kind::kResult: return 0;
      case Stmt::Kind::kLoad: return Step(stmt.index, vector) * Lanes(k_.buffers[stmt.buffer].dtype);
      case Stmt::Kind::kOp: return OpCost(stmt.op) * std::max(1.0, Lanes(stmt.dtype));
      default: return std::max(1.0, Lanes(stmt.dtype));
    }
  }

  double StageCost(const Stage& stage) {
    std::vector<double> times = {1};  // that a statement inside so many loops is done
    for (size_t i = 0; i + 1 < stage.loops.size(); ++i) times.push_back(times.back() * SizeOf(stage.loops[i].size));
    double cost = stage.accumulators.empty() || k_.tile_loop ? 0 : kFold;
    for (const Piece& piece : stage.pieces) cost += PieceCost(stage, piece, times);
    return cost;
  }

  double PieceCost(const Stage& stage, const Piece& piece, const std::vector<double>& times) {
    const size_t depth = stage.loops.size();
    const double starts = times.back(), last = depth == 0 ? 1 : SizeOf(piece.end - piece.begin);
    const std::string vector = k_.tile_loop ? TileVar() : depth == 0 ? "" : stage.loops.back().var;
    const double inner = starts * last * TileSize();
    apart_ = stage.block_run != 0 ? kCopied : kApart;
    double cost = kLoop * (k_.tile_loop ? starts * last : starts);
    for (int s : piece.body) {
      const Stmt& stmt = k_.stmts[s];
      const size_t loops = stmt.depth < 2 ? 0 : static_cast<size_t>(stmt.depth) - 1;
      const bool within = loops >= depth || k_.tile_loop.has_value();
      cost += StmtCost(stmt, vector) * (within ? inner : times[std::min(loops, times.size() - 1)] * kAlone);
    }
    for (const Store& store : piece.stores) cost += StoreCost(store, vector) * inner;
    const size_t folds = piece.accumulations.size() + piece.scratch_stores.size() + 2 * piece.column_sums.size();
    return cost + static_cast<double>(folds) * inner;
  }

  const Kernel& k_;
  bool known_ = true;
  double apart_ = kApart;
};

}  // namespace

int64_t GrainFor(const Kernel& kernel, int64_t least) {
  const auto item = ItemNanoseconds(kernel);
  if (!item) return 1;
  const double items = static_cast<double>(least) / std::max(*item, kNanoseconds);
  const auto extent = kernel.extent.constant();
  if (!extent) return static_cast<int64_t>(std::ceil(items));
  const auto threads = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(*extent) / items));
  return std::max<int64_t>(1, *extent / threads);
}

bool FitsNarrowVectors(const Kernel& kernel) {
  if (kernel.accumulators.empty()) return false;
  int64_t wide = 0, narrow = 0;
  const auto add = [&](int64_t elements, int64_t times) {
    wide += times * (elements / 16 + elements % 16);
    narrow += times * (elements / 8 + elements % 8);
  };
  for (const Item& item : kernel.order) {
    if (!item.stage || item.stage->loops.empty() || kernel.tile_loop) continue;
    int64_t starts = 1;
    for (size_t i = 0; i + 1 < item.stage->loops.size(); ++i) {
      starts *= item.stage->loops[i].size.constant().value_or(1);
    }
    for (const Piece& piece : item.stage->pieces) {
      if (const auto size = (piece.end - piece.begin).constant()) add(std::max<int64_t>(0, *size), starts);
    }
  }
  return narrow < wide;
}

std::optional<double> ItemNanoseconds(const Kernel& kernel) { return Estimate(kernel).Run(); }

}  // namespace preheat::codegen
