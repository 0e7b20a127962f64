#include "compiler/codegen/cuda/emit_cuda.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/cuda/emitters.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int kColumns = 32, kFlatTile = 2048;  // tiles of the loop IR; the emitters choose their own

bool RunsAlong(const Expr& index, const std::string& variable) {
  auto linear = schedule::LinearIn(index, variable);
  return linear && linear->first == Expr(1);
}

// The outer loop along which items lie side by side in memory while their stages' loops jump: as when channels are
// last and pixels are reduced.
std::optional<size_t> SideBySide(const Kernel& kernel) {
  std::vector<std::string> inner;
  for (const Item& item : kernel.order) {
    if (item.stage && !item.stage->loops.empty()) inner.push_back(item.stage->loops.back().var);
  }
  size_t loads = 0;
  std::vector<size_t> along(kernel.outer.size(), 0);
  for (const Stmt& stmt : kernel.stmts) {
    if (stmt.kind != Stmt::Kind::kLoad || stmt.depth < 2) continue;
    ++loads;
    for (const std::string& variable : inner) {
      if (RunsAlong(stmt.index, variable)) return std::nullopt;
    }
    for (size_t i = 0; i < along.size(); ++i) along[i] += RunsAlong(stmt.index, kernel.outer[i].var) ? 1 : 0;
  }
  auto best = std::max_element(along.begin(), along.end());
  if (loads == 0 || best == along.end() || 2 * *best < loads) return std::nullopt;
  return best - along.begin();
}

bool IsPositive(const Expr& size) { return size.constant().value_or(0) > 0; }

// May an item store something beside a stage that has no elements? Whoever deals elements to threads forgets the item.
bool StoresBesideNothing(const Kernel& kernel) {
  bool stores = false, may_be_empty = false;
  for (const Item& item : kernel.order) {
    stores |= item.store.has_value();
    if (!item.stage) continue;
    const std::vector<Piece>& pieces = item.stage->pieces;
    may_be_empty |=
        std::none_of(pieces.begin(), pieces.end(), [](const Piece& p) { return IsPositive(p.end - p.begin); });
    for (size_t i = 0; i + 1 < item.stage->loops.size(); ++i) may_be_empty |= !IsPositive(item.stage->loops[i].size);
  }
  return stores && may_be_empty;
}

}  // namespace

Choices CudaChoices() {
  Choices choices;
  choices.tile = kColumns;
  choices.flat_tile = kFlatTile;
  choices.fit = false;  // threads are counted by tiles
  choices.line = choices.run = kTransposeBlock;
  choices.keep = false;  // a GPU computes sooner than it fetches from memory that all rows in flight share
  return choices;
}

absl::StatusOr<CudaKernel> EmitCuda(const Kernel& kernel, const Schedule& schedule) {
  const bool staged =
      std::any_of(kernel.order.begin(), kernel.order.end(), [](const Item& item) { return item.stage.has_value(); });
  if (staged && kernel.tile_loop) return EmitColumns(kernel, schedule, *kernel.tile_loop, kernel.outer);
  if (kernel.accumulators.empty() && !StoresBesideNothing(kernel)) {
    absl::StatusOr<CudaKernel> transposed = EmitTransposed(kernel, schedule);
    return absl::IsUnimplemented(transposed.status()) ? EmitFlat(kernel, schedule) : transposed;
  }
  if (std::optional<size_t> tile = SideBySide(kernel)) {
    std::vector<Loop> outer = kernel.outer;
    outer.erase(outer.begin() + static_cast<long>(*tile));
    return EmitColumns(kernel, schedule, kernel.outer[*tile], outer);
  }
  return EmitRows(kernel, schedule);
}

}  // namespace preheat::codegen
