#include "kernels/runtime/run_recorded.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "compiler/support/status_macros.h"
#include "kernels/runtime/record_run.h"

namespace preheat::runtime {
namespace {

constexpr size_t kMostRecordings = 8;  // of one state

bool IsPlain(const BoundPlan& bound) {
  return std::all_of(bound.steps.begin(), bound.steps.end(), [](const BoundStep& step) {
    return step.kind == plan::StepKind::KernelStep || step.kind == plan::StepKind::LibraryStep ||
           step.kind == plan::StepKind::ExternStep;
  });
}

// The binding's recording, last used first; made when it is new.
std::shared_ptr<RecordedRun>& FindRecorded(RunState& state) {
  auto& all = state.recorded;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& run) { return run->bound() == state.bound.get(); });
  if (found != all.end()) {
    if (found != all.begin()) std::rotate(all.begin(), found, found + 1);
    return all.front();
  }
  if (all.size() >= kMostRecordings) all.pop_back();
  all.insert(all.begin(), std::make_shared<RecordedRun>(state.bound));
  all.front()->recordable = IsPlain(*state.bound);
  return all.front();
}

absl::Status RunInWorkspace(PlanInstance& instance, RunState& state, Runner& runner, Workspace& workspace) {
  const std::lock_guard<std::mutex> lock(workspace.mutex);
  RETURN_IF_ERROR(runner.TakeError());
  std::shared_ptr<RecordedRun>& run = FindRecorded(state);
  const bool captured = runner.device().IsCapturing(state.stream);
  const bool plainly = captured || state.seconds != nullptr || !run->recordable;
  if (run->recorded() && !plainly) {
    run->Place(state, run->memory);
    if (run->Follow(runner, state).ok()) return run->Start(runner, state);
    run = std::make_shared<RecordedRun>(state.bound);  // these addresses do not fit: from the beginning
  }
  ASSIGN_OR_RETURN(const int64_t bytes, run->Bytes(instance));
  ASSIGN_OR_RETURN(std::shared_ptr<char> memory, workspace.Reserve(bytes));
  if (captured) run->memory = memory;  // the caller's graph works in it from now on
  run->Place(state, memory);
  if (plainly || run->runs == 0) {
    RETURN_IF_ERROR(runner.Run());
    ++run->runs;
    return absl::OkStatus();
  }
  if (run->Record(runner, state).ok()) {
    run->memory = std::move(memory);
    return run->Start(runner, state);
  }
  run->recordable = false;
  return runner.Run();
}

}  // namespace

std::optional<absl::Status> RunRecorded(PlanInstance& instance, RunState& state, Runner& runner) {
  const bool root = &instance.loaded() == &instance.context().executable->root();
  if (!root || runner.device().is_host() || state.given_arena != nullptr || instance.loaded().defines) return {};
  Workspace* workspace = runner.device().WorkspaceOf(state.stream);
  if (workspace == nullptr) return {};
  absl::Status status = RunInWorkspace(instance, state, runner, *workspace);
  state.given_arena = state.given_scratch = nullptr;
  return status;
}

}  // namespace preheat::runtime
