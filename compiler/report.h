#ifndef PREHEAT_COMPILER_REPORT_H_
#define PREHEAT_COMPILER_REPORT_H_

#include "compiler/build_plan.h"
#include "compiler/compile.h"

namespace preheat {

// What fusion did: kernels before and after, calls, bytes and operations of each kernel, peak memory. `graph` is what
// the passes made of the canonical one.
Report MakeReport(const Canonical& canonical, const ir::Graph& graph, const BuiltPlan& built);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_REPORT_H_
