#ifndef PREHEAT_COMPILER_DRAFT_H_
#define PREHEAT_COMPILER_DRAFT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/build_plan.h"
#include "compiler/compile.h"

namespace preheat {

// A program compiled up to its kernels' sources: for those who make the code in a way of their own, as tests that
// compile the kernels of many programs at once.
struct Draft {
  ir::Graph graph;    // after the passes; what `built` points into
  BuiltPlan built;    // its sources are to be compiled
  Artifact artifact;  // without plan and code
};

// The first half of Compile.
absl::StatusOr<Draft> MakeDraft(const Canonical& canonical, const CompileOptions& options);

// The second: `code` is what the plan's kernels refer to, for a CPU one shared object with every symbol or nothing.
absl::StatusOr<Artifact> FinishDraft(Draft draft, std::vector<std::string> code);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_DRAFT_H_
