#ifndef PREHEAT_COMPILER_CODEGEN_LOWERINGS_H_
#define PREHEAT_COMPILER_CODEGEN_LOWERINGS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// The two kinds of regions; lower_region.cc chooses. Arguments and errors are LowerRegion's.

absl::StatusOr<Kernel> LowerPointwise(const schedule::Region& region, const std::vector<Target>& targets,
                                      const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                      bool copy);

// `kept_sizes`: the outer loops' sizes, the tile's last, where they are to be finer than the region's own spelling;
// empty: that.
absl::StatusOr<Kernel> LowerReductions(const schedule::Region& region, const std::vector<Target>& targets,
                                       const StridesFn& strides_of, const ir::Ranges& sizes, const Choices& choices,
                                       bool copy, std::vector<ir::Expr> kept_sizes = {});

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_LOWERINGS_H_
