#ifndef PREHEAT_COMPILER_PLAN_BUILDER_H_
#define PREHEAT_COMPILER_PLAN_BUILDER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/assign_memory.h"
#include "compiler/build_plan.h"
#include "compiler/kernel_memo.h"

namespace preheat {

// One BuildPlan. Its parts stand in a file each; not for use elsewhere.
class PlanBuilder {
 public:
  PlanBuilder(const ir::Graph& graph, const schedule::Layouts& layouts, const schedule::Partition& partition,
              const std::vector<std::string>& op_names, const std::vector<std::string>& locations, DeviceKind device,
              const codegen::Schedules& schedules, const BuildBlock& build_block)
      : graph_(graph),
        layouts_(layouts),
        partition_(partition),
        op_names_(op_names),
        locations_(locations),
        device_(device),
        schedules_(schedules),
        build_block_(build_block),
        sizes_(graph.SymbolRanges()),
        memo_(layouts, sizes_, device) {}

  absl::StatusOr<BuiltPlan> Run();

 private:
  artifact::Plan& plan() { return built_.plan; }
  uint32_t AddBuffer(const ir::TensorType& type, std::vector<ir::Expr> strides, artifact::Storage storage,
                     uint32_t index);

  // --- Boundary ---

  void MakeBoundary();

  // A direct output under another shape: the value's own buffer and the boundary's share the caller's memory.
  uint32_t OutputView(const ir::GraphOutput& out, ir::Value direct, uint32_t own, size_t index);
  uint32_t BufferOf(ir::Value value, bool in_prologue);
  uint32_t AddConstant(ir::Value value);

  // --- Steps ---

  std::vector<ir::Value> InputsOf(const schedule::Step& step) const;
  static std::vector<ir::Value> OutputsOf(const schedule::Step& step);
  bool Frozen(ir::Value value) const { return frozen_.count(value) || value.node->op() == ir::Op::kConstant; }

  // A step whose inputs are all frozen runs once a session. Results that are outputs, and programs without frozen
  // inputs, stay with the run.
  bool BelongsToPrologue(const schedule::Step& step) const;
  absl::Status AddStep(const schedule::Step& step);

  // `joins`: the step becomes part of the last one.
  void Touch(uint32_t buffer, bool prologue, bool joins = false);
  void Append(artifact::Step step, bool prologue);

  // --- Kernels (add_kernels.cc) ---

  // A kernel of the run, as its schedule has it.
  void AddSite(const schedule::Region& region, RegionKernel made);
  const std::string& SiteIdentity(const GeneratedKernel& kernel);
  static int64_t GrainOf(const GeneratedKernel& kernel, const codegen::Schedule& schedule = {});

  // `target`: the buffer that a copy writes; otherwise every value's own.
  void AddKernel(const RegionKernel& made, const uint32_t* target, bool prologue, int64_t grain = 0);
  static KernelFacts FactsOf(const RegionKernel& made);
  artifact::KernelStep MakeStep(const RegionKernel& made, const uint32_t* target, bool prologue);

  // Many small tensors: equal kernels that follow each other are one launch.
  artifact::KernelStep* LastKernel(bool prologue);

  // Whether the last step launches this kernel too and neither of the two needs to be before the other.
  bool Joins(const GeneratedKernel& kernel, const artifact::KernelStep& step, bool prologue);
  void Join(const RegionKernel& made, const artifact::KernelStep& step, bool prologue);

  // Each distinct source once, now that it is known how many buffers each launch takes.
  void AddSources();

  // The program's operators that a kernel computes: those of the nodes between its inputs and outputs.
  std::vector<std::string> SourceOps(const RegionKernel& made) const;

  // --- Calls (add_calls.cc) ---

  absl::StatusOr<artifact::Operand> OperandOf(ir::Value value);
  artifact::Operand WholeOperand(ir::Value value);
  absl::Status AddCall(const ir::Node& node, bool prologue);
  void AddSite(artifact::LibraryStep& step);
  void AddPlanned(artifact::LibraryStep& step);

  // "matmul f32[8,16]:16,1 f32[16,4]:1,16+f32[8,4] bias gelu": all that decides how long a call takes.
  std::string CallText(const artifact::LibraryStep& step);
  absl::Status AddExtern(const ir::Node& node);

  // --- Control flow (add_control_flow.cc) ---

  absl::StatusOr<uint32_t> AddBlock(const std::string& text, const StrideLists& inputs, const StrideLists& outputs);
  StrideLists StridesOf(const std::vector<ir::Value>& values) const;
  absl::Status AddIf(const ir::Node& node);

  // The body writes the next condition and state over what it takes: copies of the first ones, in the results' memory.
  absl::Status AddWhile(const ir::Node& node);
  static std::vector<ir::Value> ResultsOf(const ir::Node& node);

  // --- The end ---

  // Outputs that are no value's own memory, and inputs that the program changes: written last, when nobody reads them
  // any more. A mutated input whose old value is also an output is copied out first.
  absl::Status CopyOutputs();

  // What stands behind each index check in this program.
  void NameErrorSites();

  const ir::Graph& graph_;
  const schedule::Layouts& layouts_;
  const schedule::Partition& partition_;
  const std::vector<std::string>& op_names_;
  const std::vector<std::string>& locations_;
  const DeviceKind device_;
  const codegen::Schedules& schedules_;
  const BuildBlock& build_block_;
  const ir::Ranges sizes_;
  KernelMemo memo_;
  std::unordered_map<const GeneratedKernel*, std::string> identities_;  // of what memo_ keeps
  std::map<ir::Value, uint32_t> buffers_;
  BufferLives lives_;
  std::vector<InPlaceStep> in_place_;
  std::set<ir::Value> frozen_;
  struct Pending {  // of plan().kernels
    std::shared_ptr<const GeneratedKernel> kernel;
    int64_t buffers, count;  // of one set, and sets
  };
  std::vector<Pending> pending_;
  BuiltPlan built_;
};

}  // namespace preheat

#endif  // PREHEAT_COMPILER_PLAN_BUILDER_H_
