#ifndef PREHEAT_COMPILER_CAPTURE_BIND_DIMS_H_
#define PREHEAT_COMPILER_CAPTURE_BIND_DIMS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// Fixes dimensions to values, everywhere in the program; those not named stay ranges. A name is what
// AtenProgram::dim_names says, "input.axis" of any place where the symbol stands alone, or the symbol itself.
// Bound symbols disappear; the others are renamed so that they stay d0, d1, ... in order.
//
// Kinds: "unknown_dimension" (the message lists the right names), "dimension_out_of_range" (outside the
// symbol's range, or against a guard that the source proved), "conflicting_dimension" (one symbol, two values).
// On failure the program is as it was.
absl::Status BindDims(AtenProgram& program, const std::map<std::string, int64_t>& dims);

// The names that BindDims prefers, in the symbols' order.
std::vector<std::string> DimensionNames(const AtenProgram& program);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_BIND_DIMS_H_
