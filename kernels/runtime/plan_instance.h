#ifndef PREHEAT_KERNELS_RUNTIME_PLAN_INSTANCE_H_
#define PREHEAT_KERNELS_RUNTIME_PLAN_INSTANCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/runtime/bound_plan.h"
#include "kernels/runtime/executable.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::runtime {

// Memory of a device, aligned to 64, that only grows.
class Block {
 public:
  explicit Block(Device& device) : device_(&device) {}
  ~Block() { device_->Free(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // At least `bytes`, the first `keep` of which stay. RESOURCE_EXHAUSTED "out_of_memory".
  absl::Status Reserve(int64_t bytes, int64_t keep = 0);
  char* data() const { return static_cast<char*>(data_); }

 private:
  Device* device_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

class RecordedRun;

// What one run needs of its own. Kept and used again, so that a run in steady state allocates nothing.
struct RunState {
  explicit RunState(Device& device) : arena(device), scratch(device), device_(device) {}
  ~RunState() { device_.FreeShared(shared); }
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  std::shared_ptr<BoundPlan> bound;
  std::vector<int64_t> symbols;
  std::vector<char*> inputs;     // addresses by input number
  std::vector<char*> outputs;    // by output number; those that mutate: null
  std::vector<char*> addresses;  // by buffer
  std::vector<void*> arguments;  // as BoundPlan::arguments
  std::vector<preheat_tensor> tensors;
  std::vector<const void*> epilogue;
  std::vector<void*> more_results;
  std::vector<int64_t> defined;
  Block arena;
  Block scratch;
  char* given_arena = nullptr;    // the caller's or the stream's workspace, used in place of `arena`
  char* given_scratch = nullptr;  // likewise, of `scratch`
  std::vector<std::shared_ptr<RecordedRun>> recorded;  // one a binding, last used first
  Stream stream = nullptr;
  // What host and device both address: the error word, and after 8 bytes the values of integer inputs, one a symbol.
  int64_t* shared = nullptr;
  int32_t* error() const { return reinterpret_cast<int32_t*>(shared); }
  std::vector<double>* seconds = nullptr;  // one a step, when the run is profiled

 private:
  Device& device_;
};

// What the plans of a session share.
struct SessionContext {
  const Executable* executable = nullptr;
  preheat_extern_handler extern_handler = nullptr;
  void* extern_context = nullptr;
};

// One plan (the root or a subplan) in one session: its bindings, its arenas, its session memory and packed weights.
// Run may be called from several threads at once; BindFrozen not while others run.
class PlanInstance {
 public:
  PlanInstance(const SessionContext& context, const LoadedPlan& loaded);

  // Checks and keeps the frozen inputs' addresses, drops everything derived from earlier ones, runs the prologue and,
  // when no symbol is open, makes every step ready.
  absl::Status BindFrozen(absl::Span<const preheat_tensor> frozen);
  // The same with the tensors of before, whose contents have changed.
  absl::Status Refresh();

  // As preheat_session_run. `seconds`: null, or where each step's time goes.
  absl::Status Run(absl::Span<const preheat_tensor> inputs, absl::Span<const preheat_tensor> outputs,
                   std::vector<double>* seconds, Stream stream = nullptr);
  // As preheat_session_run_raw.
  absl::Status RunRaw(const int64_t* symbols, void* const* inputs, void* const* outputs, void* arena,
                      std::vector<double>* seconds, Stream stream = nullptr);

  // --- For run_plan.cc ---
  const LoadedPlan& loaded() const { return loaded_; }
  const SessionContext& context() const { return context_; }
  PlanInstance& subplan(uint32_t i) { return *subplans_[i]; }
  char* session_memory() const { return session_memory_.data(); }
  absl::StatusOr<std::shared_ptr<BoundPlan>> BoundFor(const std::vector<int64_t>& symbols);
  // Makes a library call ready, packing its frozen operands: operands[i] is operand i's first element.
  absl::StatusOr<const ReadyLibrary*> MakeReady(BoundPlan& bound, BoundLibrary& library, const void* const operands[2]);

  // See preheat_session_algorithm.
  std::string Algorithm(size_t step);
  // The names of the run's steps, in order.
  std::vector<std::string> StepNames();

 private:
  class Lease;
  absl::StatusOr<std::unique_ptr<RunState>> TakeState(Stream stream);
  absl::Status RunPrologue();
  absl::Status PrepareAll();
  absl::StatusOr<const void*> Packed(const library::PreparedCall& call, int operand, const void* from);

  const SessionContext& context_;
  const LoadedPlan& loaded_;
  std::vector<std::unique_ptr<PlanInstance>> subplans_;
  std::vector<int64_t> initial_symbols_;  // those of frozen inputs; least values elsewhere
  std::vector<char*> frozen_;             // addresses by input number; null for free inputs
  Block session_memory_;

  std::mutex bound_mutex_;
  std::vector<std::shared_ptr<BoundPlan>> bound_;  // guarded by bound_mutex_; the last used first
  std::mutex packed_mutex_;
  std::map<std::string, std::unique_ptr<Block>> packed_;  // guarded by packed_mutex_; by address and layout
  std::mutex states_mutex_;
  std::vector<std::unique_ptr<RunState>> states_;  // guarded by states_mutex_; those not in use
};

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_PLAN_INSTANCE_H_
