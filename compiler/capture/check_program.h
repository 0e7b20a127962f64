#ifndef PREHEAT_COMPILER_CAPTURE_CHECK_PROGRAM_H_
#define PREHEAT_COMPILER_CAPTURE_CHECK_PROGRAM_H_

#include "absl/status/status.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// What every reader of a program may rely on, whoever made it:
//   - every id names a value; a value used is an input, a constant or an earlier node's result, and is
//     defined once (kind "cyclic_graph" where it comes later, "malformed_program" otherwise)
//   - symbols are d0, d1, ... and no expression has others
//   - sizes and strides agree in number and are within limits.h ("negative_size", "size_overflow")
//   - blocks of control flow are such programs, nested at most kMaxBlockDepth deep, take what their node's operands are
//     and give what its results are
//   - constants have the bytes of their type; outputs name inputs and earlier outputs that exist
absl::Status CheckProgram(const AtenProgram& program);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_CHECK_PROGRAM_H_
