#include "kernels/runtime/record_run.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::runtime {
namespace {

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Operators that torch may run under capture: they neither wait for the device nor read the host's memory. Those that
// draw random numbers refuse, and are then called directly.
constexpr absl::string_view kCapturable[] = {"aten.convolution",
                                             "aten._scaled_dot_product_",
                                             "aten._flash_attention_",
                                             "aten._efficient_attention_",
                                             "aten.native_group_norm",
                                             "aten.cudnn_",
                                             "aten.native_batch_norm",
                                             "aten.upsample_",
                                             "aten._upsample_",
                                             "aten._adaptive_avg_pool",
                                             "aten.adaptive_max_pool",
                                             "aten.avg_pool",
                                             "aten.max_pool",
                                             "aten.grid_sampler_",
                                             "aten.bmm.",
                                             "aten.mm.",
                                             "aten.addmm.",
                                             "aten.baddbmm.",
                                             "aten._scaled_mm",
                                             "aten.cumsum.",
                                             "aten.im2col.",
                                             "aten.col2im."};

std::mutex g_hooks_mutex;
CaptureHooks g_hooks;  // guarded by g_hooks_mutex

CaptureHooks Hooks() {
  std::lock_guard<std::mutex> lock(g_hooks_mutex);
  return g_hooks;
}

// Torch on another stream, for a scope.
class CaptureScope {
 public:
  CaptureScope(int32_t device, Stream stream) : hooks_(Hooks()), device_(device) {
    begun_ = hooks_.begin != nullptr && hooks_.begin(hooks_.context, device, stream) == 0;
  }
  ~CaptureScope() {
    if (begun_) hooks_.end(hooks_.context, device_);
  }
  CaptureScope(const CaptureScope&) = delete;
  bool begun() const { return begun_; }

 private:
  const CaptureHooks hooks_;
  const int32_t device_;
  bool begun_ = false;
};

// The step's own work on `stream`.
absl::Status RunOn(Runner& runner, RunState& state, const BoundStep& step, Stream stream) {
  const Stream own = std::exchange(state.stream, stream);
  absl::Status status;
  if (step.kind == plan::StepKind::ExternStep) {
    const CaptureScope scope(runner.device().ordinal(), stream);
    status = scope.begun() ? runner.RunStep(step) : absl::FailedPreconditionError("torch cannot be captured now");
  } else {
    status = runner.RunStep(step);
  }
  state.stream = own;
  return status;
}

}  // namespace

void SetCaptureHooks(const CaptureHooks& hooks) {
  std::lock_guard<std::mutex> lock(g_hooks_mutex);
  g_hooks = hooks;
}

absl::StatusOr<int64_t> RecordedRun::Bytes(PlanInstance& instance) {
  if (bytes_ >= 0) return bytes_;
  StepOrder order = OrderSteps(*bound_);
  int64_t scratch[kLanes] = {0, 0};
  for (size_t s = 0; s < bound_->steps.size(); ++s) {
    const BoundStep& step = bound_->steps[s];
    int64_t& most = scratch[order.lane[s]];
    if (step.kind == plan::StepKind::KernelStep) {
      const BoundKernel& kernel = bound_->kernels[step.index];
      if (!IsIdle(kernel)) most = std::max(most, kernel.scratch_bytes * kernel.grid[0]);
    } else if (step.kind == plan::StepKind::LibraryStep) {
      const void* const nothing[2] = {nullptr, nullptr};  // on a GPU operands are not packed
      ASSIGN_OR_RETURN(const ReadyLibrary* ready, instance.MakeReady(*bound_, *bound_->libraries[step.index], nothing));
      most = std::max(most, ready->scratch_bytes);
    }
  }
  order_ = std::move(order);
  int64_t bytes = Aligned(bound_->arena_bytes);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    scratch_begin_[lane] = bytes;
    bytes += Aligned(scratch[lane]);
  }
  return bytes_ = bytes;
}

void RecordedRun::Place(RunState& state, std::shared_ptr<char> memory) {
  state.given_arena = memory.get();
  state.given_scratch = memory.get() + scratch_begin_[0];
}

// Its lane's, of the memory that the state has been placed in.
void RecordedRun::GiveScratch(RunState& state, size_t step) const {
  state.given_scratch = state.given_arena + scratch_begin_[order_.lane[step]];
}

// --- Recording ---

bool RecordedRun::Captured(size_t step) const {
  if (bound_->steps[step].kind != plan::StepKind::ExternStep) return true;
  const char* op = Text(bound_->externs[bound_->steps[step].index].step->op());
  if (direct_.count(op) != 0 || Hooks().begin == nullptr) return false;
  return std::any_of(std::begin(kCapturable), std::end(kCapturable),
                     [op](absl::string_view prefix) { return absl::StartsWith(op, prefix); });
}

absl::Status RecordedRun::Record(Runner& runner, RunState& state) {
  RETURN_IF_ERROR(runner.PlaceBuffers(0));
  const size_t count = bound_->steps.size();
  while (true) {
    const size_t direct = direct_.size();
    parts_.clear();
    nodes_.assign(count, {});
    absl::Status status;
    for (size_t begin = 0, end = 0; begin < count && status.ok(); begin = end) {
      end = begin + 1;
      while (end < count && Captured(begin) && Captured(end)) ++end;
      status = RecordPart(runner, state, begin, end);
    }
    if (status.ok()) break;
    parts_.clear();
    if (direct_.size() == direct) return status;  // not for an extern call: once more would end alike
  }
  addresses_ = state.addresses;
  arguments_ = state.arguments;
  NoteReaders();
  return absl::OkStatus();
}

absl::Status RecordedRun::RecordPart(Runner& runner, RunState& state, size_t begin, size_t end) {
  Part part;
  part.begin = begin, part.end = end;
  if (Captured(begin)) {
    ASSIGN_OR_RETURN(part.graph, runner.device().NewGraph());
    if (part.graph == nullptr) return absl::UnimplementedError("this device has no graphs");
    size_t number = 0;
    for (size_t i = begin; i < end; ++i) {
      bool added = false;
      RETURN_IF_ERROR(AddStep(runner, state, *part.graph, i, &added));
      if (added) nodes_[i] = {static_cast<int>(parts_.size()), number++};
    }
    RETURN_IF_ERROR(part.graph->Finish());
  }
  parts_.push_back(std::move(part));
  return absl::OkStatus();
}

// Of those that stand in the part that is being recorded; everything else is done when it is started.
std::vector<size_t> RecordedRun::NodesBefore(size_t step) const {
  std::vector<size_t> numbers;
  for (const uint32_t earlier : order_.before[step]) {
    if (nodes_[earlier].part == static_cast<int>(parts_.size())) numbers.push_back(nodes_[earlier].number);
  }
  return numbers;
}

absl::Status RecordedRun::AddStep(Runner& runner, RunState& state, LaunchGraph& graph, size_t number, bool* added) {
  const BoundStep& step = bound_->steps[number];
  const std::vector<size_t> after = NodesBefore(number);
  GiveScratch(state, number);
  if (step.kind == plan::StepKind::KernelStep) {
    const BoundKernel& kernel = bound_->kernels[step.index];
    if (IsIdle(kernel)) return absl::OkStatus();
    *added = true;
    ASSIGN_OR_RETURN(const Launch launch, runner.LaunchOf(kernel));
    return runner.AtStep(graph.AddLaunch(launch, after), number);
  }
  *added = true;
  absl::Status status = graph.AddCapture([&](Stream side) { return RunOn(runner, state, step, side); }, after);
  if (!status.ok() && step.kind == plan::StepKind::ExternStep) {
    direct_.insert(Text(bound_->externs[step.index].step->op()));
  }
  return runner.AtStep(std::move(status), number);
}

// Which steps look at each boundary tensor's memory.
void RecordedRun::NoteReaders() {
  moving_.clear(), readers_.clear();
  place_.assign(bound_->buffers.size(), -1);
  for (uint32_t i = 0; i < bound_->buffers.size(); ++i) {
    const plan::Storage storage = bound_->buffers[i].storage;
    if (storage != plan::Storage::Input && storage != plan::Storage::Output) continue;
    place_[i] = static_cast<int32_t>(moving_.size());
    moving_.push_back(i);
  }
  readers_.resize(moving_.size());
  for (uint32_t s = 0; s < bound_->steps.size(); ++s) {
    const BoundStep& step = bound_->steps[s];
    if (step.kind == plan::StepKind::KernelStep) {
      const BoundKernel& kernel = bound_->kernels[step.index];
      for (uint32_t i = 0; i < kernel.num_arguments; ++i) NoteReader(bound_->arguments[kernel.first_argument + i], s);
    } else if (step.kind == plan::StepKind::LibraryStep) {
      const BoundLibrary& library = *bound_->libraries[step.index];
      for (const BoundOperand& operand : library.operands) NoteReader(operand.buffer, s);
      for (const BoundOperand& operand : library.epilogue) NoteReader(operand.buffer, s);
      NoteReader(library.result.buffer, s);
      for (const BoundOperand& result : library.more_results) NoteReader(result.buffer, s);
    } else {
      const BoundExtern& call = bound_->externs[step.index];
      for (const BoundOperand& operand : call.operands) NoteReader(operand.buffer, s);
      for (uint32_t i = 0; i < Count(call.step->results()); ++i) NoteReader(call.step->results()->Get(i), s);
    }
  }
  touched_.assign(bound_->steps.size(), 0);
}

void RecordedRun::NoteReader(uint32_t buffer, uint32_t step) {
  if (buffer == kNoBuffer || place_[buffer] < 0) return;
  std::vector<uint32_t>& steps = readers_[static_cast<size_t>(place_[buffer])];
  if (steps.empty() || steps.back() != step) steps.push_back(step);
}

// --- Starting ---

absl::Status RecordedRun::Start(Runner& runner, RunState& state) {
  ExchangePlaces(state);
  absl::Status status;
  for (size_t i = 0; i < parts_.size() && status.ok(); ++i) {
    const Part& part = parts_[i];
    status = part.graph != nullptr ? part.graph->Start(state.stream)
                                   : runner.AtStep(runner.RunStep(bound_->steps[part.begin]), part.begin);
  }
  ExchangePlaces(state);
  return status;
}

void RecordedRun::ExchangePlaces(RunState& state) {
  std::swap(state.addresses, addresses_);
  std::swap(state.arguments, arguments_);
}

absl::Status RecordedRun::Follow(Runner& runner, RunState& state) {
  RETURN_IF_ERROR(runner.ShareSymbols());
  ++starts_;
  changed_.clear();
  for (size_t i = 0; i < moving_.size(); ++i) {
    char* now = runner.AddressOf(bound_->buffers[moving_[i]]);
    if (now == addresses_[moving_[i]]) continue;
    addresses_[moving_[i]] = now;
    for (const uint32_t step : readers_[i]) {
      if (std::exchange(touched_[step], starts_) != starts_) changed_.push_back(step);
    }
  }
  ExchangePlaces(state);
  absl::Status status;
  for (size_t i = 0; i < changed_.size() && status.ok(); ++i) status = Change(runner, state, changed_[i]);
  ExchangePlaces(state);
  return status;
}

absl::Status RecordedRun::Change(Runner& runner, RunState& state, size_t number) {
  const BoundStep& step = bound_->steps[number];
  const Node node = nodes_[number];
  GiveScratch(state, number);
  if (step.kind == plan::StepKind::KernelStep) {
    const BoundKernel& kernel = bound_->kernels[step.index];
    for (uint32_t i = kernel.first_argument; i < kernel.first_argument + kernel.num_arguments; ++i)
      state.arguments[i] = state.addresses[bound_->arguments[i]];
    if (node.part < 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Launch launch, runner.LaunchOf(kernel));
    return parts_[static_cast<size_t>(node.part)].graph->SetLaunch(node.number, launch);
  }
  if (node.part < 0) return absl::OkStatus();
  return parts_[static_cast<size_t>(node.part)].graph->SetCapture(
      node.number, [&](Stream side) { return RunOn(runner, state, step, side); });
}

}  // namespace preheat::runtime
