#ifndef PREHEAT_COMPILER_CODEGEN_CPU_TRANSPOSED_LOAD_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_TRANSPOSED_LOAD_H_

#include <optional>

#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// A load of a block (block_transpose.h) that is contiguous along the block's first loop and jumps along its last one.
struct TransposedLoad {
  ir::Expr start;  // its index at the first element of both loops
  ir::Expr jump;   // from one element of the last loop to the next
};

// Nothing where the load runs otherwise, or where its place depends on what the block computes.
std::optional<TransposedLoad> FindTransposed(const Stage& stage, const Stmt& load);

// void phx_transposed(const float* a, long lda, long rows, long columns, float* u, long ldu):
// u[c * ldu + r] = a[r * lda + c].
extern const char kTransposedSource[];

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_TRANSPOSED_LOAD_H_
