#include "kernels/runtime/run_plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/parallel_for.h"
#include "kernels/runtime/bind.h"
#include "kernels/runtime/c_status.h"
#include "kernels/runtime/run_recorded.h"
#include "kernels/runtime/runner.h"

namespace preheat::runtime {
namespace {

constexpr size_t kMostQueued = 64;     // steps of a timed run, each a launch or a few
constexpr uint32_t kDivisionSite = 5;  // codegen's ErrorSite; the others check indices

}  // namespace

absl::Status Runner::Run() {
  RETURN_IF_ERROR(TakeError());
  RETURN_IF_ERROR(PlaceBuffers(0));
  if (state_.seconds != nullptr) return RunTimed();
  // The list's length is the same under every binding; the binding itself may change on the way.
  for (size_t i = 0; i < state_.bound->steps.size(); ++i) RETURN_IF_ERROR(RunStepAt(i));
  return absl::OkStatus();
}

absl::Status Runner::RunStepAt(size_t number) {
  const BoundStep step = state_.bound->steps[number];
  absl::Status status = RunStep(step);
  return status.ok() ? status : AtStep(std::move(status), number);
}

absl::Status Runner::RunTimed() {
  const size_t count = state_.bound->steps.size();
  state_.seconds->assign(count, 0);
  for (size_t i = 0; i < count;) {
    const size_t end = EndOfQueue(i);
    if (end > i) {
      RETURN_IF_ERROR(TimeOnDevice(i, end));
      i = end;
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(RunStepAt(i));
    RETURN_IF_ERROR(device().Synchronize(state_.stream));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    (*state_.seconds)[i++] = took.count();
  }
  return absl::OkStatus();
}

// Behind the steps from `begin` on that a GPU can queue without the host: `begin` itself where there are none.
size_t Runner::EndOfQueue(size_t begin) const {
  if (device().is_host()) return begin;
  size_t end = begin;
  const auto& steps = state_.bound->steps;
  while (end < std::min(steps.size(), begin + kMostQueued) &&
         (steps[end].kind == plan::StepKind::KernelStep || steps[end].kind == plan::StepKind::LibraryStep)) {
    ++end;
  }
  return end;
}

// By events of the GPU's, with all of these steps queued before the first begins: the host's pauses are not counted.
absl::Status Runner::TimeOnDevice(size_t begin, size_t end) {
  std::vector<std::unique_ptr<Event>> events;
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Hold> hold, device().HoldBack(state_.stream));
    for (size_t i = begin; i <= end; ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<Event> event, device().Record(state_.stream));
      events.push_back(std::move(event));
      if (i < end) RETURN_IF_ERROR(RunStepAt(i));
    }
  }
  for (size_t i = begin; i < end; ++i) {
    ASSIGN_OR_RETURN((*state_.seconds)[i], device().SecondsBetween(*events[i - begin], *events[i - begin + 1]));
  }
  return absl::OkStatus();
}

// --- Addresses ---
absl::Status Runner::PlaceBuffers(int64_t keep_arena) {
  const BoundPlan& bound = *state_.bound;
  if (state_.given_arena == nullptr) RETURN_IF_ERROR(state_.arena.Reserve(bound.arena_bytes, keep_arena));
  if (!device().is_host()) RETURN_IF_ERROR(ShareSymbols());
  state_.addresses.resize(bound.buffers.size());
  for (size_t i = 0; i < bound.buffers.size(); ++i) state_.addresses[i] = AddressOf(bound.buffers[i]);
  state_.arguments.resize(bound.arguments.size());
  for (size_t i = 0; i < bound.arguments.size(); ++i) state_.arguments[i] = state_.addresses[bound.arguments[i]];
  return absl::OkStatus();
}

// A GPU reads integer inputs from memory that both address. Work still under way may read the last run's.
absl::Status Runner::ShareSymbols() {
  for (size_t i = 0; i < state_.symbols.size(); ++i) {
    if (state_.shared[1 + i] == state_.symbols[i]) continue;
    RETURN_IF_ERROR(device().Synchronize(state_.stream));
    state_.shared[1 + i] = state_.symbols[i];
  }
  return absl::OkStatus();
}

char* Runner::AddressOf(const BoundBuffer& buffer) {
  switch (buffer.storage) {
    case plan::Storage::Input: return InputAddress(buffer.index);
    case plan::Storage::Output: return state_.outputs[buffer.index];
    case plan::Storage::Arena:
      return (state_.given_arena != nullptr ? state_.given_arena : state_.arena.data()) + buffer.offset;
    case plan::Storage::Session: return instance_.session_memory() + buffer.offset;
    case plan::Storage::Constant: break;
  }
  return instance_.loaded().constants + buffer.offset;
}

// An integer input lies where its symbol's value is.
char* Runner::InputAddress(uint32_t input) {
  const int32_t symbol = instance_.loaded().size_symbol[input];
  if (symbol < 0) return state_.inputs[input];
  const size_t i = static_cast<size_t>(symbol);
  return reinterpret_cast<char*>(device().is_host() ? &state_.symbols[i] : &state_.shared[1 + i]);
}

preheat_tensor Runner::TensorOf(char* data, int32_t dtype, int32_t rank, const int64_t* sizes,
                                const int64_t* strides) const {
  return {data, dtype, rank, sizes, strides, DeviceTypeOf(device()), device().ordinal()};
}
preheat_tensor Runner::TensorOf(uint32_t buffer) const {
  const BoundBuffer& b = state_.bound->buffers[buffer];
  return TensorOf(state_.addresses[buffer], b.dtype, b.rank, b.sizes, b.strides);
}

// --- Steps ---
absl::Status Runner::RunStep(const BoundStep& step) {
  switch (step.kind) {
    case plan::StepKind::KernelStep: return RunKernel(state_.bound->kernels[step.index]);
    case plan::StepKind::LibraryStep: return RunLibrary(*state_.bound->libraries[step.index]);
    case plan::StepKind::ExternStep: return RunExtern(state_.bound->externs[step.index]);
    case plan::StepKind::ReadScalar: return RunReadScalar(*Control(step).kind_as_ReadScalar());
    case plan::StepKind::If: return RunIf(*Control(step).kind_as_If());
    case plan::StepKind::While: return RunWhile(*Control(step).kind_as_While());
    case plan::StepKind::CallPlan: {
      const plan::CallPlan& call = *Control(step).kind_as_CallPlan();
      return RunSubplan(call.plan(), call.buffers());
    }
    case plan::StepKind::NONE: break;
  }
  return absl::InternalError("a step of no kind");
}

absl::StatusOr<Launch> Runner::LaunchOf(const BoundKernel& kernel) {
  Launch launch;
  launch.function = kernel.function;
  launch.buffers = state_.arguments.data() + kernel.first_argument;
  launch.num_buffers = kernel.num_arguments;
  launch.scalars = kernel.scalars;
  launch.num_scalars = kernel.num_scalars;
  launch.error = state_.error();
  launch.extent = kernel.extent;
  launch.grain = kernel.grain;
  launch.scratch_bytes = kernel.scratch_bytes;
  if (kernel.scratch_bytes > 0) {
    const int64_t owners = device().is_host() ? ThreadsFor(kernel.extent, kernel.grain) : kernel.grid[0];
    ASSIGN_OR_RETURN(launch.scratch, Scratch(kernel.scratch_bytes * owners));
  }
  std::copy_n(kernel.grid, 3, launch.grid);
  std::copy_n(kernel.block, 3, launch.block);
  launch.shared_bytes = kernel.shared_bytes;
  return launch;
}

absl::Status Runner::RunKernel(const BoundKernel& kernel) {
  if (IsIdle(kernel)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Launch launch, LaunchOf(kernel));
  RETURN_IF_ERROR(device().Launch(launch, state_.stream));
  return TakeError();
}

// What is behind the arena in the caller's memory, or memory of this state's.
absl::StatusOr<char*> Runner::Scratch(int64_t bytes) {
  if (state_.given_scratch != nullptr) return state_.given_scratch;
  RETURN_IF_ERROR(state_.scratch.Reserve(bytes));
  return state_.scratch.data();
}

// On a GPU: of the run before this one.
absl::Status Runner::TakeError() { return *state_.error() == 0 ? absl::OkStatus() : KernelError(); }

absl::Status Runner::AtStep(absl::Status status, size_t number) const {
  const BoundStep& step = state_.bound->steps[number];
  return WithWhere(std::move(status), absl::StrCat("step ", number, " (", NameOf(*state_.bound, step), ")"));
}

// Reports and clears it.
absl::Status Runner::KernelError() {
  const uint32_t site = static_cast<uint32_t>(std::exchange(*state_.error(), 0)) - 1;
  const auto* sites = instance_.loaded().plan->error_sites();
  const std::string op = site < Count(sites) ? Text(sites->Get(site)) : "an operator";
  const bool division = site + 1 == kDivisionSite;
  return MakeError(
      absl::StatusCode::kOutOfRange,
      {.kind = division ? "division_by_zero" : "index_out_of_range",
       .message = absl::StrCat(op, division ? ": an integer is divided by zero" : ": an index is out of range"),
       .where = op,
       .fix = division ? "keep zeros out of the divisor" : "pass indices within the dimension that they select from"});
}

absl::Status Runner::RunLibrary(BoundLibrary& library) {
  preheat_lib_addresses addresses = {};
  for (int i = 0; i < 2; ++i) addresses.operands[i] = AddressOf(library.operands[i]);
  const ReadyLibrary* ready = library.ready.load(std::memory_order_acquire);
  if (ready == nullptr || ready->fork_generation != ForkGeneration()) {
    ASSIGN_OR_RETURN(ready, instance_.MakeReady(*state_.bound, library, addresses.operands));
  }
  addresses.packed[0] = ready->packed[0];
  addresses.packed[1] = ready->packed[1];
  addresses.result = AddressOf(library.result);
  state_.epilogue.clear();
  for (const BoundOperand& operand : library.epilogue) {
    state_.epilogue.push_back(operand.buffer != kNoBuffer ? AddressOf(operand) : nullptr);
  }
  addresses.epilogue = state_.epilogue.data();
  state_.more_results.clear();
  for (const BoundOperand& result : library.more_results) state_.more_results.push_back(AddressOf(result));
  addresses.more_results = state_.more_results.data();
  ASSIGN_OR_RETURN(addresses.scratch, Scratch(ready->scratch_bytes));
  addresses.stream = state_.stream;
  return ready->call->Run(addresses);
}

absl::Status Runner::RunExtern(const BoundExtern& call) {
  const SessionContext& context = instance_.context();
  state_.tensors.clear();
  for (const BoundOperand& b : call.operands) {
    state_.tensors.push_back(TensorOf(AddressOf(b), b.dtype, b.rank, b.sizes, b.strides));
  }
  for (uint32_t i = 0; i < Count(call.step->results()); ++i) {
    state_.tensors.push_back(TensorOf(call.step->results()->Get(i)));
  }
  const uint32_t num_defined = Count(call.step->defines());
  state_.defined.assign(num_defined, 0);
  const preheat_extern_call extern_call = {Text(call.step->op()),
                                           call.call.c_str(),
                                           state_.tensors.data(),
                                           call.operands.size(),
                                           state_.tensors.data() + call.operands.size(),
                                           Count(call.step->results()),
                                           state_.defined.data(),
                                           num_defined,
                                           state_.stream};
  RETURN_IF_ERROR(FromC(context.extern_handler(context.extern_context, &extern_call)));
  for (uint32_t i = 0; i < num_defined; ++i) RETURN_IF_ERROR(Define(call.step->defines()->Get(i), state_.defined[i]));
  return num_defined > 0 ? Rebind() : absl::OkStatus();
}

// --- Symbols that steps define ---
absl::Status Runner::Define(uint32_t index, int64_t value) {
  const plan::SymbolDef& symbol = *instance_.loaded().plan->symbols()->Get(index);
  if (value < symbol.min() || value > symbol.max()) {
    return MakeError(absl::StatusCode::kOutOfRange,
                     {.kind = "size_out_of_range",
                      .message = absl::StrCat("a computed size (", Text(symbol.name()), ") is ", value,
                                              ", the plan takes ", symbol.min(), " to ", symbol.max()),
                      .where = "",
                      .fix = "compile with a wider range for this size"});
  }
  state_.symbols[index] = value;
  return absl::OkStatus();
}

// Sizes have changed: from here on the plan runs under the new ones. What the arena holds stays.
absl::Status Runner::Rebind() {
  const int64_t keep = state_.bound->arena_bytes;
  ASSIGN_OR_RETURN(state_.bound, instance_.BoundFor(state_.symbols));
  return PlaceBuffers(keep);
}

int64_t Runner::ReadInteger(uint32_t buffer) const {
  const char* p = state_.addresses[buffer];
  switch (static_cast<plan::DType>(state_.bound->buffers[buffer].dtype)) {
    case plan::DType::I8: return *reinterpret_cast<const int8_t*>(p);
    case plan::DType::I16: return *reinterpret_cast<const int16_t*>(p);
    case plan::DType::I32: return *reinterpret_cast<const int32_t*>(p);
    case plan::DType::I64: return *reinterpret_cast<const int64_t*>(p);
    default: return *reinterpret_cast<const uint8_t*>(p);  // bool, u8: check_plan admits no others
  }
}

absl::Status Runner::RunReadScalar(const plan::ReadScalar& step) {
  RETURN_IF_ERROR(Define(step.symbol(), ReadInteger(step.buffer())));
  return Rebind();
}

// --- Subplans ---
absl::Status Runner::RunIf(const plan::If& step) {
  const bool taken = ReadInteger(step.condition()) != 0;
  return RunSubplan(taken ? step.then_plan() : step.else_plan(), step.buffers());
}

absl::Status Runner::RunSubplan(uint32_t index, const flatbuffers::Vector<uint32_t>* buffers) {
  PlanInstance& subplan = instance_.subplan(index);
  std::vector<preheat_tensor> tensors;
  for (uint32_t i = 0; i < Count(buffers); ++i) tensors.push_back(SubplanTensor(subplan.loaded(), i, buffers->Get(i)));
  const size_t inputs = subplan.loaded().num_inputs();
  const absl::Span<const preheat_tensor> all(tensors);
  return subplan.Run(all.first(inputs), all.subspan(inputs), nullptr, state_.stream);
}

// A subplan's integer input is passed by value, as any caller passes one.
preheat_tensor Runner::SubplanTensor(const LoadedPlan& subplan, uint32_t i, uint32_t buffer) {
  preheat_tensor tensor = TensorOf(buffer);
  if (i >= subplan.num_inputs() || subplan.size_symbol[i] < 0) return tensor;
  if (tensor.dtype != static_cast<int32_t>(plan::DType::I64) || state_.bound->buffers[buffer].empty) return tensor;
  tensor.rank = 1;
  tensor.sizes = reinterpret_cast<const int64_t*>(tensor.data);
  return tensor;
}

absl::Status Runner::RunWhile(const plan::While& step) {
  PlanInstance& condition = instance_.subplan(step.condition_plan());
  std::vector<preheat_tensor> tensors;
  for (uint32_t i = 0; i < Count(step.buffers()); ++i) {
    tensors.push_back(SubplanTensor(condition.loaded(), i, step.buffers()->Get(i)));
  }
  for (int64_t iteration = 0; iteration < step.limit(); ++iteration) {
    uint8_t more = 0;
    const preheat_tensor result = TensorOf(reinterpret_cast<char*>(&more), 0, 0, nullptr, nullptr);
    RETURN_IF_ERROR(condition.Run(tensors, {&result, 1}, nullptr));
    if (more == 0) return absl::OkStatus();
    RETURN_IF_ERROR(RunSubplan(step.body_plan(), step.buffers()));
  }
  return MakeError(absl::StatusCode::kOutOfRange, {.kind = "loop_limit",
                                                   .message = absl::StrCat("a loop has run ", step.limit(), " times"),
                                                   .where = "",
                                                   .fix = "raise the loop's limit, or see why it does not end"});
}

absl::Status RunPlan(PlanInstance& instance, RunState& state) {
  const ThreadLimit limit(instance.context().executable->num_threads());
  Runner runner(instance, state);
  if (std::optional<absl::Status> done = RunRecorded(instance, state, runner)) return *done;
  return runner.Run();
}

}  // namespace preheat::runtime
