#ifndef PREHEAT_COMPILER_CAPTURE_VIEWS_H_
#define PREHEAT_COMPILER_CAPTURE_VIEWS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// How the memory of a node's results relates to its first operand's.
enum class Aliasing {
  kFresh,    // memory of its own
  kSame,     // the operand itself: detach, dropout in eval, to() of the dtype it has
  kView,     // a part or another shape of the operand
  kUnknown,  // a view or a copy, depending on sizes that are not known: reshape of a symbolic transposed tensor
};
Aliasing AliasingOf(const AtenProgram& program, const AtenNode& node);

// The operand that AliasingOf speaks of: the first tensor argument. -1 when there is none.
int FirstOperand(const AtenNode& node);

// The node, without results, that computes `base` with `written` put where result number `result` of
// `view` lies in it. UNIMPLEMENTED, kind "unsupported_mutation", for views that have no such inverse.
absl::StatusOr<AtenNode> ScatterBack(const AtenProgram& program, const AtenNode& view, int result, int base,
                                     int written);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_VIEWS_H_
