#ifndef PREHEAT_COMPILER_CODEGEN_BLOCK_TRANSPOSE_H_
#define PREHEAT_COMPILER_CODEGEN_BLOCK_TRANSPOSE_H_

#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// For a stage that stores along its last loop but loads something along another one: makes blocks of both, so that the
// cache lines of the load are used whole while they are near (loop tiling: Wolfe, "More iteration space tiling", 1989).
// Loops that are not blocked, and the blocks themselves, become the kernel's outer loops; the stage keeps the two loops
// within a block. The kernel's extent and work are set; statement depths are those of the new loops. False, and nothing
// is changed, when no load asks for it. REQUIRES: the kernel's statements so far are the stage's; the stage has one
// piece and no accumulators.
// `line` and `run`: elements of the transposed and of the stored loop in a block.
bool BlockTranspose(Stage& stage, Kernel& kernel, int64_t line, int64_t run);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_BLOCK_TRANSPOSE_H_
