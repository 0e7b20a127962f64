#ifndef PREHEAT_COMPILER_BUILD_PLAN_H_
#define PREHEAT_COMPILER_BUILD_PLAN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/artifact/plan_model.h"
#include "compiler/generate_kernels.h"
#include "compiler/read_block.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat {

// A step of a run that can be made in several ways: what a tuner measures.
struct Site {
  size_t step = 0;       // of plan.steps
  std::string name;      // codegen::Schedules has it under this name, whatever schedule it has now
  std::string identity;  // equal for sites, of any program, that do the same work in the same way by default
  std::string variant;   // what is run now: with as many threads, equal exactly when the same would be measured
  int64_t threads = 1;   // of a kernel: that it may have; more of them are left idle
};

// A library call without a choice, whose plan takes long to make: attention on a GPU. An artifact may bring it.
struct PlannedCall {
  size_t step = 0;   // of plan.steps
  std::string name;  // codegen::Schedules::algorithms has it under this name
};

// What a report says of a kernel step.
struct KernelFacts {
  std::vector<codegen::KernelBuffer> buffers;
  ir::Expr work;           // elements that its loops go through
  int64_t operations = 0;  // of each
};

// A program ready to be written: its plan without code digests, and the kernels behind it, each distinct source once.
struct BuiltPlan {
  artifact::Plan plan;
  std::vector<codegen::EmittedKernel> sources;  // in the order of first use; plan.kernels refer to symbols
  std::vector<KernelFacts> kernels;             // one a kernel step, in the order of `order`
  std::vector<Site> sites;                      // in the order of plan.steps
  std::vector<PlannedCall> planned;             // likewise
  std::vector<bool> order;                      // one a step as it was made: true when it went into the prologue
  // Of control flow: their plans have become plan.subplans, their sources are among `sources`.
  std::vector<BuiltPlan> blocks;
  std::shared_ptr<const ir::Graph> graph;  // of a block: what `kernels` points into
};

// A block of control flow (read_block.h), ready to be a subplan.
using BuildBlock = std::function<absl::StatusOr<BuiltPlan>(const std::string& text, const StrideLists& inputs,
                                                           const StrideLists& outputs)>;

// Gives every stored value memory, turns the partition's steps into plan steps (those that need frozen inputs only into
// the prologue), adds the copies that outputs need, and plans the arena. `op_names` names the source operator of a
// debug id. A schedule that a region cannot have is passed over. `build_block` is needed by graphs with control flow.
absl::StatusOr<BuiltPlan> BuildPlan(const ir::Graph& graph, const schedule::Layouts& layouts,
                                    const schedule::Partition& partition, const std::vector<std::string>& op_names,
                                    const std::vector<std::string>& locations, DeviceKind device = DeviceKind::kCpu,
                                    const codegen::Schedules& schedules = {}, const BuildBlock& build_block = {});

}  // namespace preheat

#endif  // PREHEAT_COMPILER_BUILD_PLAN_H_
