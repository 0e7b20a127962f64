#include "compiler/codegen/lower_region.h"

#include <utility>

#include "compiler/codegen/loop_nest.h"
#include "compiler/codegen/lowerings.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int64_t kLeastTile = 16;  // elements

// Indices that divide the tile's variable cost more than all else in a vector loop. Outer loops for the quotients make
// the tile's loop the remainder's, if that is long enough; empty otherwise.
std::vector<Expr> WithoutDivisions(const Kernel& kernel) {
  if (!kernel.tile_loop || kernel.accumulators.empty()) return {};
  std::vector<Expr> exprs;
  for (const Stmt& stmt : kernel.stmts) {
    exprs.push_back(stmt.index);
    exprs.insert(exprs.end(), stmt.conditions.begin(), stmt.conditions.end());
  }
  std::vector<Expr> factors = FactorsOf(*kernel.tile_loop, exprs);
  if (factors.size() < 2 || factors.back().constant().value_or(0) < kLeastTile) return {};
  std::vector<Expr> sizes;
  for (const Loop& loop : kernel.outer) sizes.push_back(loop.size);
  sizes.insert(sizes.end(), factors.begin(), factors.end());
  return sizes;
}

}  // namespace

absl::StatusOr<Kernel> LowerRegion(const schedule::Region& region, const std::vector<Target>& targets,
                                   const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                   bool copy) {
  if (region.kind == schedule::RegionKind::kPointwise)
    return LowerPointwise(region, targets, strides_of, sizes, choices, copy);
  ASSIGN_OR_RETURN(Kernel kernel, LowerReductions(region, targets, strides_of, sizes, choices, copy));
  std::vector<Expr> finer = WithoutDivisions(kernel);
  if (finer.empty()) return kernel;
  return LowerReductions(region, targets, strides_of, sizes, choices, copy, std::move(finer));
}

}  // namespace preheat::codegen
