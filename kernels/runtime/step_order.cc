#include "kernels/runtime/step_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "kernels/runtime/runner.h"

namespace preheat::runtime {
namespace {

constexpr size_t kMostSteps = 8192;      // of a plan that has a second lane
constexpr double kLong = 2e9;            // multiplications of a product, or
constexpr int64_t kLongBytes = 4 << 20;  // bytes of a kernel's buffers: some microseconds
constexpr int64_t kNotSoon = 2;          // long steps before the first that wants the result
constexpr uint32_t kNever = UINT32_MAX;

bool Idle(const BoundPlan& bound, const BoundStep& step) {
  return step.kind == plan::StepKind::KernelStep && IsIdle(bound.kernels[step.index]);
}

double ElementsOf(const BoundOperand& operand) {
  double elements = 1;
  for (int32_t d = 0; d < operand.rank; ++d) elements *= static_cast<double>(operand.sizes[d]);
  return elements;
}

// Extern calls are not: torch gives the memory of one to the next.
bool IsLong(const BoundPlan& bound, const BoundStep& step) {
  if (step.kind == plan::StepKind::LibraryStep) {
    const BoundLibrary& library = *bound.libraries[step.index];
    const BoundOperand& first = library.operands[0];
    if (library.step->op() != plan::LibraryOp::MatMul || first.rank == 0) return false;
    return ElementsOf(library.result) * static_cast<double>(first.sizes[first.rank - 1]) >= kLong;
  }
  if (step.kind != plan::StepKind::KernelStep || Idle(bound, step)) return false;
  const BoundKernel& kernel = bound.kernels[step.index];
  int64_t bytes = 0;
  for (uint32_t i = kernel.first_argument; i < kernel.first_argument + kernel.num_arguments; ++i)
    bytes += bound.buffers[bound.arguments[i]].bytes;
  return bytes >= kLongBytes;
}

// --- Which steps meet in memory ---

class Meetings {
 public:
  explicit Meetings(const BoundPlan& bound) : bound_(bound) {
    for (size_t i = 0; i < bound.arguments.size(); ++i) NoteWrittenInput(bound.arguments[i], bound.written[i] != 0);
    for (const auto& library : bound.libraries) {
      NoteWrittenInput(library->result.buffer, true);
      for (const BoundOperand& result : library->more_results) NoteWrittenInput(result.buffer, true);
    }
    for (const BoundExtern& call : bound.externs) {
      for (uint32_t i = 0; i < Count(call.step->results()); ++i) NoteWrittenInput(call.step->results()->Get(i), true);
    }
  }

  // Earlier steps that step `s` has to wait for, but for some that these wait for. REQUIRES: steps in order.
  std::vector<uint32_t> Of(uint32_t s) {
    found_.clear();
    const BoundStep& step = bound_.steps[s];
    if (step.kind == plan::StepKind::KernelStep) {
      const BoundKernel& kernel = bound_.kernels[step.index];
      for (uint32_t i = kernel.first_argument; i < kernel.first_argument + kernel.num_arguments; ++i)
        Touch(s, bound_.arguments[i], bound_.written[i] != 0);
    } else if (step.kind == plan::StepKind::LibraryStep) {
      const BoundLibrary& library = *bound_.libraries[step.index];
      for (const BoundOperand& operand : library.operands) Touch(s, operand.buffer, false);
      for (const BoundOperand& operand : library.epilogue) Touch(s, operand.buffer, false);
      Touch(s, library.result.buffer, true);
      for (const BoundOperand& result : library.more_results) Touch(s, result.buffer, true);
    } else {
      const BoundExtern& call = bound_.externs[step.index];
      for (const BoundOperand& operand : call.operands) Touch(s, operand.buffer, false);
      for (uint32_t i = 0; i < Count(call.step->results()); ++i) Touch(s, call.step->results()->Get(i), true);
    }
    return std::move(found_);
  }

 private:
  // Memory as steps know it: one tensor of the caller's, or the arena.
  using Place = std::pair<plan::Storage, uint32_t>;
  struct Use {
    int64_t begin, end;
    uint32_t step;
    bool writes;
  };

  // Two inputs may be one memory, which matters when a step writes to one: all are one place then, else none.
  void NoteWrittenInput(uint32_t buffer, bool writes) {
    one_input_ = one_input_ || (writes && bound_.buffers[buffer].storage == plan::Storage::Input);
  }

  void Touch(uint32_t s, uint32_t number, bool writes) {
    if (number == kNoBuffer || bound_.buffers[number].empty) return;
    const BoundBuffer& buffer = bound_.buffers[number];
    switch (buffer.storage) {
      case plan::Storage::Input: return one_input_ ? Touch({buffer.storage, 0}, {0, 1, s, writes}) : void();
      case plan::Storage::Output: return Touch({buffer.storage, buffer.index}, {0, 1, s, writes});
      case plan::Storage::Arena:
        return Touch({buffer.storage, 0}, {buffer.offset, buffer.offset + buffer.bytes, s, writes});
      default: return;  // nothing writes there in a run
    }
  }

  // Whoever waits for a write has waited for all uses of what it covers.
  void Touch(Place place, const Use& use) {
    std::vector<Use>& uses = uses_[place];
    size_t kept = 0;
    for (const Use& earlier : uses) {
      const bool meet = use.begin < earlier.end && earlier.begin < use.end;
      if (meet && (use.writes || earlier.writes) && earlier.step != use.step) found_.push_back(earlier.step);
      const bool covered = use.writes && use.begin <= earlier.begin && earlier.end <= use.end;
      if (!covered) uses[kept++] = earlier;
    }
    uses.resize(kept);
    uses.push_back(use);
  }

  const BoundPlan& bound_;
  bool one_input_ = false;
  std::map<Place, std::vector<Use>> uses_;
  std::vector<uint32_t> found_;
};

// --- Lanes ---

// By step: the first later one that waits for it. Those for which nobody waits (what adds up a weight's gradient, say)
// do not count, but for the plan's last.
std::vector<uint32_t> FirstToWait(const std::vector<std::vector<uint32_t>>& meetings) {
  const size_t count = meetings.size();
  std::vector<bool> has_waiting(count, false);
  for (const auto& earlier : meetings) {
    for (const uint32_t step : earlier) has_waiting[step] = true;
  }
  if (count > 0) has_waiting[count - 1] = true;
  std::vector<uint32_t> first(count, kNever);
  for (size_t s = count; s-- > 0;) {
    if (!has_waiting[s]) continue;
    for (const uint32_t earlier : meetings[s]) first[earlier] = static_cast<uint32_t>(s);
  }
  if (count > 0) first[count - 1] = static_cast<uint32_t>(count);
  return first;
}

// Steps that go beside others: long ones whose result is not wanted soon, and what makes something of it that is not
// wanted soon either.
std::vector<uint8_t> LanesOf(const BoundPlan& bound, const std::vector<std::vector<uint32_t>>& meetings) {
  const size_t count = bound.steps.size();
  const std::vector<uint32_t> wanted = FirstToWait(meetings);
  std::vector<int64_t> long_before(count + 1, 0);  // those that are wanted
  for (uint32_t s = 0; s < count; ++s)
    long_before[s + 1] = long_before[s] + (wanted[s] != kNever && IsLong(bound, bound.steps[s]) ? 1 : 0);
  std::vector<uint8_t> lane(count, 0);
  for (uint32_t s = 0; s < count; ++s) {
    if (bound.steps[s].kind == plan::StepKind::ExternStep || Idle(bound, bound.steps[s])) continue;
    const size_t until = std::min<size_t>(wanted[s], count);
    if (wanted[s] != kNever && long_before[until] - long_before[s + 1] < kNotSoon) continue;
    const bool continues = wanted[s] == kNever && std::any_of(meetings[s].begin(), meetings[s].end(),
                                                              [&](uint32_t earlier) { return lane[earlier] == 1; });
    lane[s] = continues || IsLong(bound, bound.steps[s]) ? 1 : 0;
  }
  return lane;
}

// Leaves out what is waited for anyway.
class Reduction {
 public:
  explicit Reduction(size_t count) : ancestors_(count) {}

  std::vector<uint32_t> Nearest(uint32_t s, std::vector<uint32_t> earlier) {
    std::sort(earlier.begin(), earlier.end(), std::greater<>());
    std::vector<uint64_t>& all = ancestors_[s];
    all.assign(s / 64 + 1, 0);
    std::vector<uint32_t> nearest;
    for (const uint32_t step : earlier) {
      if ((all[step / 64] >> step % 64 & 1) != 0) continue;
      nearest.push_back(step);
      all[step / 64] |= uint64_t{1} << step % 64;
      for (size_t i = 0; i < ancestors_[step].size(); ++i) all[i] |= ancestors_[step][i];
    }
    return nearest;
  }

 private:
  std::vector<std::vector<uint64_t>> ancestors_;  // by step, a bit an earlier step
};

}  // namespace

StepOrder OrderSteps(const BoundPlan& bound) {
  const size_t count = bound.steps.size();
  const bool lanes = count <= kMostSteps;
  std::vector<std::vector<uint32_t>> meetings(count);
  Meetings met(bound);
  for (uint32_t s = 0; s < count && lanes; ++s) {
    if (!Idle(bound, bound.steps[s])) meetings[s] = met.Of(s);
  }
  StepOrder order{lanes ? LanesOf(bound, meetings) : std::vector<uint8_t>(count, 0), {}};
  order.before.resize(count);
  Reduction reduction(lanes ? count : 0);
  std::optional<uint32_t> last[kLanes];
  for (uint32_t s = 0; s < count; ++s) {
    if (Idle(bound, bound.steps[s])) continue;
    std::vector<uint32_t>& earlier = meetings[s];
    if (std::optional<uint32_t> before = std::exchange(last[order.lane[s]], s)) earlier.push_back(*before);
    order.before[s] = lanes ? reduction.Nearest(s, std::move(earlier)) : std::move(earlier);
  }
  return order;
}

}  // namespace preheat::runtime
