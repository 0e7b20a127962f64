#ifndef PREHEAT_KERNELS_RUNTIME_RUNNER_H_
#define PREHEAT_KERNELS_RUNTIME_RUNNER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/runtime/bound_plan.h"
#include "kernels/runtime/plan_instance.h"

namespace preheat::runtime {

// Whether a kernel has nothing to do under its binding.
inline bool IsIdle(const BoundKernel& kernel) { return kernel.extent == 0 || kernel.grid[0] == 0; }

// The steps of one run: where their operands lie and how each kind is done. One a run; borrows both.
class Runner {
 public:
  Runner(PlanInstance& instance, RunState& state) : instance_(instance), state_(state) {}

  // All steps in order, one after another.
  absl::Status Run();

  // --- For record_run.cc and run_recorded.cc ---

  // OUT_OF_RANGE when a kernel has reported an index or a division since the last look; clears it.
  absl::Status TakeError();
  // Fills state.addresses and state.arguments. The first `keep_arena` bytes of an arena that grows stay.
  absl::Status PlaceBuffers(int64_t keep_arena);
  // Values of integer inputs to where a GPU reads them.
  absl::Status ShareSymbols();
  char* AddressOf(const BoundBuffer& buffer);
  // A kernel step as the device takes it; arguments point into the state. REQUIRES: buffers are placed.
  absl::StatusOr<Launch> LaunchOf(const BoundKernel& kernel);
  // Does a step on state.stream.
  absl::Status RunStep(const BoundStep& step);
  // A step's error with its number and name.
  absl::Status AtStep(absl::Status status, size_t number) const;

  Device& device() const { return instance_.context().executable->device(); }

 private:
  const plan::Step& Control(const BoundStep& step) const { return *state_.bound->controls[step.index].step; }

  char* InputAddress(uint32_t input);
  char* AddressOf(const BoundOperand& operand) const { return state_.addresses[operand.buffer] + operand.offset; }
  preheat_tensor TensorOf(char* data, int32_t dtype, int32_t rank, const int64_t* sizes, const int64_t* strides) const;
  preheat_tensor TensorOf(uint32_t buffer) const;

  // One step, whose errors say where it stands.
  absl::Status RunStepAt(size_t number);
  // As Run, filling state.seconds.
  absl::Status RunTimed();
  size_t EndOfQueue(size_t begin) const;
  absl::Status TimeOnDevice(size_t begin, size_t end);

  absl::StatusOr<char*> Scratch(int64_t bytes);
  absl::Status RunKernel(const BoundKernel& kernel);
  absl::Status KernelError();
  absl::Status RunLibrary(BoundLibrary& library);
  absl::Status RunExtern(const BoundExtern& call);

  absl::Status Define(uint32_t index, int64_t value);
  absl::Status Rebind();
  int64_t ReadInteger(uint32_t buffer) const;
  absl::Status RunReadScalar(const plan::ReadScalar& step);
  absl::Status RunIf(const plan::If& step);
  absl::Status RunSubplan(uint32_t index, const flatbuffers::Vector<uint32_t>* buffers);
  preheat_tensor SubplanTensor(const LoadedPlan& subplan, uint32_t i, uint32_t buffer);
  absl::Status RunWhile(const plan::While& step);

  PlanInstance& instance_;
  RunState& state_;
};

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_RUNNER_H_
