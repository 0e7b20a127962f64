#ifndef PREHEAT_KERNELS_RUNTIME_RECORD_RUN_H_
#define PREHEAT_KERNELS_RUNTIME_RECORD_RUN_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/runtime/plan_instance.h"
#include "kernels/runtime/runner.h"
#include "kernels/runtime/step_order.h"

namespace preheat::runtime {

// Steps of one binding in one state, put together in graphs, in which a step begins when those are done that it has to
// wait for (step_order.h). Boundary tensors may lie elsewhere at each start: kernels that read or write a moved one get
// other arguments, library and extern calls are captured again. Extern calls that torch cannot have captured stand
// between two graphs.
class RecordedRun {
 public:
  explicit RecordedRun(std::shared_ptr<BoundPlan> bound) : bound_(std::move(bound)) {}

  const BoundPlan* bound() const { return bound_.get(); }
  // Workspace for arena and scratch; makes library calls ready to know it.
  absl::StatusOr<int64_t> Bytes(PlanInstance& instance);
  // Puts the state's arena and scratch into `memory`, which is held as long as this is recorded.
  void Place(RunState& state, std::shared_ptr<char> memory);

  bool recorded() const { return !parts_.empty(); }
  // Builds the graphs for where the state's tensors lie now.
  absl::Status Record(Runner& runner, RunState& state);
  // Nodes that look at tensors which have moved since learn where those are. An error: to be recorded anew.
  absl::Status Follow(Runner& runner, RunState& state);
  absl::Status Start(Runner& runner, RunState& state);

  int runs = 0;            // step by step
  bool recordable = true;  // nothing has spoken against it so far
  std::shared_ptr<char> memory;

 private:
  // Steps [begin, end): as a graph, or a call made directly.
  struct Part {
    std::unique_ptr<LaunchGraph> graph;
    size_t begin = 0, end = 0;
  };
  struct Node {
    int part = -1;  // -1: nothing to do, or a direct call
    size_t number = 0;
  };

  bool Captured(size_t step) const;
  absl::Status RecordPart(Runner& runner, RunState& state, size_t begin, size_t end);
  absl::Status AddStep(Runner& runner, RunState& state, LaunchGraph& graph, size_t step, bool* added);
  std::vector<size_t> NodesBefore(size_t step) const;
  void GiveScratch(RunState& state, size_t step) const;
  void NoteReaders();
  void NoteReader(uint32_t buffer, uint32_t step);
  void ExchangePlaces(RunState& state);
  absl::Status Change(Runner& runner, RunState& state, size_t step);

  const std::shared_ptr<BoundPlan> bound_;
  StepOrder order_;
  int64_t scratch_begin_[kLanes] = {0, 0};  // of each lane's steps, in the workspace
  int64_t bytes_ = -1;
  std::set<std::string> direct_;  // extern operators whose capture has failed
  std::vector<Part> parts_;
  std::vector<Node> nodes_;                     // by step
  std::vector<uint32_t> moving_;                // buffers of inputs and outputs
  std::vector<int32_t> place_;                  // by buffer: in moving_, or -1
  std::vector<std::vector<uint32_t>> readers_;  // by place: steps
  std::vector<char*> addresses_;                // as RunState's, for this binding
  std::vector<void*> arguments_;
  std::vector<uint32_t> changed_;  // steps of the run at hand
  std::vector<uint64_t> touched_;  // by step: the start that has changed it last
  uint64_t starts_ = 0;
};

// What the process offers to runs that are recorded with extern calls in them: between these two calls of one thread,
// torch works on `stream` and takes memory that stays with the recording. `begin`: 0 when it could.
struct CaptureHooks {
  int32_t (*begin)(void* context, int32_t device, Stream stream) = nullptr;
  void (*end)(void* context, int32_t device) = nullptr;
  void* context = nullptr;
};
void SetCaptureHooks(const CaptureHooks& hooks);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_RECORD_RUN_H_
