#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_LOWER_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_LOWER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/capture/aten_program.h"
#include "compiler/ir/graph.h"

namespace preheat::decompose {

struct LowerOptions {
  // Fail on the first operator that would become an extern call, with the reason: for tests.
  bool strict = false;
  // Operators to leave to the extern handler: "aten.gelu" (every overload) or "aten.gelu.default".
  std::vector<std::string> exclude;
  // Further nodes to leave to it, where this is set and says so.
  std::function<bool(const capture::AtenNode& node)> leave = {};
  // Take in f64 what is one number for many elements (statistics by channel), and round once: for devices where a few
  // operations in f64 cost nothing.
  bool wide = false;
  // Whether bits decide (exact.h), where the program around a block says so; otherwise it is found out.
  std::optional<bool> exact = {};
  // Told of each node that becomes an extern call, and why.
  std::function<void(const capture::AtenNode& node, absl::string_view why)> left = {};
};

// The program in core operators. It must be functional (capture/functionalize.h) and checked
// (capture/check_program.h).
//
// Inputs keep order and number; outputs that are None are left out, outputs that are sizes become 0-d i64
// tensors. Each operator is lowered by its row in one of the families' tables; one without a row, or whose row
// refuses the form at hand, becomes Op::kExtern. Every node's results are held against the types that the
// program declares (a block of control flow becomes text: Op::kIf): INVALID_ARGUMENT, kind "type_mismatch", names the
// node. Nodes that nothing uses are left out, unless they are of a namespace other than aten.
absl::StatusOr<ir::Graph> Lower(const capture::AtenProgram& program, const LowerOptions& options = {});

// True when a row for that operator exists: "aten.add.Tensor".
bool HasLowering(const std::string& op);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_LOWER_H_
