#ifndef PREHEAT_COMPILER_CODEGEN_LOOP_NEST_H_
#define PREHEAT_COMPILER_CODEGEN_LOOP_NEST_H_

#include <vector>

#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// Loops over the dimensions of a shape, made finer where an index divides a dimension and coarser where every index
// runs through two of them in step. Keeps, for each original dimension, its index in the present variables.
class LoopNest {
 public:
  explicit LoopNest(std::vector<Loop> loops);

  const std::vector<Loop>& loops() const { return loops_; }
  // Of the loops the nest was made with.
  const std::vector<ir::Expr>& Sizes() const { return sizes_; }
  const std::vector<ir::Expr>& Variables() const { return index_; }

  // Splits a variable v of size n wherever `exprs` hold floordiv(v, k) or mod(v, k) and k divides n. True if anything
  // changed: then expressions must be made again. Only before Join.
  bool Split(const std::vector<ir::Expr>& exprs);

  // Joins neighbours v, w (size n of w) when every expression holds them as c*(n*v + w): row-major runs. True if
  // anything changed.
  bool Join(std::vector<ir::Expr> exprs);

  // Where conditions (>= 0) of the last variable alone change, ascending, inside its range; empty when there are
  // more than `most` or a condition depends on other variables too.
  std::vector<ir::Expr> Cuts(const std::vector<ir::Expr>& conditions, size_t most) const;

 private:
  void Replace(size_t loop, std::vector<Loop> with, const ir::Expr& value);

  std::vector<Loop> loops_;
  std::vector<ir::Expr> sizes_;  // original
  std::vector<ir::Expr> index_;  // original dimensions in present variables
  int fresh_ = 0;
};

// The factors of a loop's size, from the outermost to the innermost, that make every divisor which `exprs` divide its
// variable by a product of inner ones; empty when there is nothing to split.
std::vector<ir::Expr> FactorsOf(const Loop& loop, const std::vector<ir::Expr>& exprs);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_LOOP_NEST_H_
