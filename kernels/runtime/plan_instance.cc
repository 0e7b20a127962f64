#include "kernels/runtime/plan_instance.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/parallel_for.h"
#include "kernels/library/cuda/prepare_cuda.h"
#include "kernels/library/providers.h"
#include "kernels/runtime/bind.h"
#include "kernels/runtime/run_plan.h"

namespace preheat::runtime {
namespace {

constexpr size_t kMaxBindings = 32;  // kept ready in one session

}  // namespace

absl::Status Block::Reserve(int64_t bytes, int64_t keep) {
  if (bytes <= bytes_) return absl::OkStatus();
  ASSIGN_OR_RETURN(void* grown, device_->Allocate(bytes));
  if (keep > 0) RETURN_IF_ERROR(device_->Copy(grown, data_, std::min(keep, bytes_)));
  device_->Free(data_);
  data_ = grown;
  bytes_ = bytes;
  return absl::OkStatus();
}

// A state for the time of one run.
class PlanInstance::Lease {
 public:
  Lease(PlanInstance& owner, std::unique_ptr<RunState> state) : owner_(owner), state_(std::move(state)) {
    state_->symbols = owner.initial_symbols_;
    state_->inputs = owner.frozen_;
    state_->outputs.assign(owner.loaded_.num_outputs(), nullptr);
    state_->given_arena = state_->given_scratch = nullptr;
  }
  ~Lease() {
    std::lock_guard<std::mutex> lock(owner_.states_mutex_);
    owner_.states_.push_back(std::move(state_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  RunState& operator*() { return *state_; }
  RunState* operator->() { return state_.get(); }

 private:
  PlanInstance& owner_;
  std::unique_ptr<RunState> state_;
};

// One that no run uses: on a GPU work that a finished run has left on its stream may still use a state's memory, so a
// state belongs to a stream.
absl::StatusOr<std::unique_ptr<RunState>> PlanInstance::TakeState(Stream stream) {
  Device& device = context_.executable->device();
  {
    std::lock_guard<std::mutex> lock(states_mutex_);
    for (size_t i = states_.size(); i-- > 0;) {
      if (!device.is_host() && states_[i]->stream != stream) continue;
      std::unique_ptr<RunState> state = std::move(states_[i]);
      states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(i));
      state->stream = stream;
      if (device.is_host()) *state->error() = 0;
      return state;
    }
  }
  auto state = std::make_unique<RunState>(device);
  const int64_t words = 1 + static_cast<int64_t>(loaded_.num_symbols());
  ASSIGN_OR_RETURN(void* shared, device.AllocateShared(words * static_cast<int64_t>(sizeof(int64_t))));
  state->shared = static_cast<int64_t*>(shared);
  std::fill_n(state->shared, words, 0);
  state->stream = stream;
  return state;
}

PlanInstance::PlanInstance(const SessionContext& context, const LoadedPlan& loaded)
    : context_(context), loaded_(loaded), session_memory_(context.executable->device()) {
  for (const auto& subplan : loaded.subplans) subplans_.push_back(std::make_unique<PlanInstance>(context, *subplan));
  initial_symbols_.resize(loaded.num_symbols());
  InitSymbols(loaded, initial_symbols_.data());
  frozen_.assign(loaded.num_inputs(), nullptr);
}

absl::Status PlanInstance::BindFrozen(absl::Span<const preheat_tensor> frozen) {
  RETURN_IF_ERROR(CheckCount(frozen.size(), loaded_.frozen_inputs.size(), "frozen inputs"));
  std::vector<int64_t> symbols = initial_symbols_, values(loaded_.plan->sizes()->size());
  RETURN_IF_ERROR(BindSymbols(loaded_, loaded_.frozen_inputs, frozen.data(), symbols.data()));
  RETURN_IF_ERROR(EvaluateSizes(*loaded_.plan, symbols.data(), values.data()));
  for (size_t i = 0; i < frozen.size(); ++i) {
    RETURN_IF_ERROR(CheckInput(loaded_, loaded_.frozen_inputs[i], frozen[i], values.data(),
                               DeviceTypeOf(context_.executable->device())));
  }
  for (size_t i = 0; i < frozen.size(); ++i) frozen_[loaded_.frozen_inputs[i]] = static_cast<char*>(frozen[i].data);
  initial_symbols_ = std::move(symbols);
  for (const auto& subplan : subplans_) RETURN_IF_ERROR(subplan->BindFrozen({}));
  return Refresh();
}

absl::Status PlanInstance::Refresh() {
  bound_.clear();
  packed_.clear();
  for (const auto& state : states_) state->recorded.clear();  // they hold addresses of before
  RETURN_IF_ERROR(RunPrologue());
  return loaded_.num_symbols() == 0 ? PrepareAll() : absl::OkStatus();
}

absl::Status PlanInstance::RunPrologue() {
  ASSIGN_OR_RETURN(std::shared_ptr<BoundPlan> bound, Bind(loaded_, Part::kPrologue, initial_symbols_.data()));
  RETURN_IF_ERROR(session_memory_.Reserve(bound->values[loaded_.plan->session_bytes()]));
  ASSIGN_OR_RETURN(std::unique_ptr<RunState> taken, TakeState(nullptr));
  Lease state(*this, std::move(taken));
  state->bound = std::move(bound);
  absl::Status status = RunPlan(*this, *state);
  state->bound.reset();
  // Runs on other streams read what it has written.
  if (status.ok()) status = context_.executable->device().Synchronize(nullptr);
  return WithWhere(status, "prologue");
}

// So that weights are packed once, at Bind, and the first run is like the others.
absl::Status PlanInstance::PrepareAll() {
  ASSIGN_OR_RETURN(std::shared_ptr<BoundPlan> bound, BoundFor(initial_symbols_));
  const auto address = [&](const BoundOperand& operand) -> const char* {
    const BoundBuffer& buffer = bound->buffers[operand.buffer];
    switch (buffer.storage) {
      case plan::Storage::Input: return frozen_[buffer.index] + operand.offset;
      case plan::Storage::Session: return session_memory_.data() + buffer.offset + operand.offset;
      case plan::Storage::Constant: return loaded_.constants + buffer.offset + operand.offset;
      default: return nullptr;  // not frozen: not read
    }
  };
  for (const auto& library : bound->libraries) {
    const void* const operands[2] = {address(library->operands[0]), address(library->operands[1])};
    RETURN_IF_ERROR(MakeReady(*bound, *library, operands).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<BoundPlan>> PlanInstance::BoundFor(const std::vector<int64_t>& symbols) {
  std::lock_guard<std::mutex> lock(bound_mutex_);
  const auto found =
      std::find_if(bound_.begin(), bound_.end(), [&](const auto& bound) { return bound->symbols == symbols; });
  if (found != bound_.end()) {
    std::rotate(bound_.begin(), found, found + 1);
    return bound_.front();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<BoundPlan> bound, Bind(loaded_, Part::kRun, symbols.data()));
  if (bound_.size() >= kMaxBindings) bound_.pop_back();
  bound_.insert(bound_.begin(), bound);
  return bound;
}

absl::StatusOr<const void*> PlanInstance::Packed(const library::PreparedCall& call, int operand, const void* from) {
  const std::string key = absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(from)), " ", call.pack_key(operand));
  std::lock_guard<std::mutex> lock(packed_mutex_);
  std::unique_ptr<Block>& block = packed_[key];
  if (block != nullptr) return static_cast<const void*>(block->data());
  auto made = std::make_unique<Block>(context_.executable->device());
  absl::Status status = made->Reserve(call.packed_bytes(operand));
  if (status.ok()) status = call.Pack(operand, from, made->data());
  if (!status.ok()) return status;
  block = std::move(made);
  return static_cast<const void*>(block->data());
}

absl::StatusOr<const ReadyLibrary*> PlanInstance::MakeReady(BoundPlan& bound, BoundLibrary& library,
                                                            const void* const operands[2]) {
  std::lock_guard<std::mutex> lock(bound.ready_mutex);
  const ReadyLibrary* before = library.ready.load(std::memory_order_acquire);
  if (before != nullptr && before->fork_generation == ForkGeneration()) return before;
  auto ready = std::make_unique<ReadyLibrary>();
  ready->fork_generation = ForkGeneration();
  if (context_.executable->device().is_host()) {
    ASSIGN_OR_RETURN(ready->call, library::Prepare(SpecOf(library), Text(library.step->provider())));
  } else {
    ASSIGN_OR_RETURN(ready->call, library::PrepareCuda(SpecOf(library)));
  }
  for (int i = 0; i < 2; ++i) {
    if (ready->call->pack_key(i).empty()) continue;
    ASSIGN_OR_RETURN(ready->packed[i], Packed(*ready->call, i, operands[i]));
  }
  ready->scratch_bytes = ready->call->scratch_bytes();
  const ReadyLibrary* made = ready.get();
  bound.ready_libraries.push_back(std::move(ready));
  library.ready.store(made, std::memory_order_release);
  return made;
}

absl::Status PlanInstance::Run(absl::Span<const preheat_tensor> inputs, absl::Span<const preheat_tensor> outputs,
                               std::vector<double>* seconds, Stream stream) {
  RETURN_IF_ERROR(CheckCount(inputs.size(), loaded_.free_inputs.size(), "inputs"));
  RETURN_IF_ERROR(CheckCount(outputs.size(), loaded_.passed_outputs.size(), "outputs"));
  ASSIGN_OR_RETURN(std::unique_ptr<RunState> taken, TakeState(stream));
  Lease state(*this, std::move(taken));
  RETURN_IF_ERROR(BindSymbols(loaded_, loaded_.free_inputs, inputs.data(), state->symbols.data()));
  ASSIGN_OR_RETURN(state->bound, BoundFor(state->symbols));
  const int64_t* values = state->bound->values.data();
  const int32_t device_type = DeviceTypeOf(context_.executable->device());
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckInput(loaded_, loaded_.free_inputs[i], inputs[i], values, device_type));
    state->inputs[loaded_.free_inputs[i]] = static_cast<char*>(inputs[i].data);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckOutput(loaded_, loaded_.passed_outputs[i], outputs[i], values, device_type));
    state->outputs[loaded_.passed_outputs[i]] = static_cast<char*>(outputs[i].data);
  }
  state->seconds = seconds;
  return RunPlan(*this, *state);
}

absl::Status PlanInstance::RunRaw(const int64_t* symbols, void* const* inputs, void* const* outputs, void* arena,
                                  std::vector<double>* seconds, Stream stream) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunState> taken, TakeState(stream));
  Lease state(*this, std::move(taken));
  std::copy_n(symbols, state->symbols.size(), state->symbols.begin());
  ASSIGN_OR_RETURN(state->bound, BoundFor(state->symbols));
  for (size_t i = 0; i < loaded_.free_inputs.size(); ++i) {
    state->inputs[loaded_.free_inputs[i]] = static_cast<char*>(inputs[i]);
  }
  for (size_t i = 0; i < loaded_.passed_outputs.size(); ++i) {
    state->outputs[loaded_.passed_outputs[i]] = static_cast<char*>(outputs[i]);
  }
  if (!loaded_.defines) state->given_arena = static_cast<char*>(arena);
  state->seconds = seconds;
  return RunPlan(*this, *state);
}

std::string PlanInstance::Algorithm(size_t step) {
  std::lock_guard<std::mutex> lock(bound_mutex_);
  if (bound_.empty() || step >= bound_.front()->steps.size()) return "";
  const BoundStep& bound = bound_.front()->steps[step];
  if (bound.kind != plan::StepKind::LibraryStep) return "";
  const ReadyLibrary* ready = bound_.front()->libraries[bound.index]->ready.load(std::memory_order_acquire);
  return ready != nullptr ? ready->call->algorithm() : "";
}

std::vector<std::string> PlanInstance::StepNames() {
  std::vector<std::string> names;
  const absl::StatusOr<std::shared_ptr<BoundPlan>> bound = BoundFor(initial_symbols_);
  if (!bound.ok()) return names;
  for (const BoundStep& step : (*bound)->steps) {
    names.push_back(NameOf(**bound, step));
    if (step.kind != plan::StepKind::LibraryStep) continue;
    const ReadyLibrary* ready = (*bound)->libraries[step.index]->ready.load(std::memory_order_acquire);
    if (ready != nullptr) absl::StrAppend(&names.back(), " by ", ready->call->provider());
  }
  return names;
}

}  // namespace preheat::runtime
