#ifndef PREHEAT_COMPILER_CODEGEN_LOWER_REGION_H_
#define PREHEAT_COMPILER_CODEGEN_LOWER_REGION_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// Where values lie: strides in elements of a value's memory (dense row-major unless the boundary says otherwise).
using StridesFn = std::function<std::vector<ir::Expr>(ir::Value)>;

// What a schedule may choose for a region; the defaults are the cost model's.
struct Choices {
  int tile = 256;            // elements of a tile in a tiled kernel that reduces
  int flat_tile = 4096;      // of one that does not
  bool fit = true;           // tiles of equal length, none larger than all there is
  int line = 64, run = 128;  // of a block where something is transposed: elements loaded and stored in a row; a block
                             // of f32 is a first-level cache
  int keep = 1;              // rows keep costly values for later stages; 0: each stage computes them again
  int copies = 0;            // parts of a long fold that run side by side; 0: by what the fold does
  int width = 0;             // bits of the vectors that the host compiler prefers; 0: by the lengths of loops
};

// One store of a region: a value and the layout of the memory it goes to.
struct Target {
  ir::Value value;
  std::vector<ir::Expr> strides;
};

// Turns a region into loops. `targets` are its outputs with their layouts; when `copy` is set the targets' values are
// read from memory, which makes a layout-changing copy of a stored value. INTERNAL when the region breaks a rule of
// schedule/fuse.h.
absl::StatusOr<Kernel> LowerRegion(const schedule::Region& region, const std::vector<Target>& targets,
                                   const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                   bool copy = false);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_LOWER_REGION_H_
