#include "kernels/runtime/check_steps.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/library/call.h"

namespace preheat::runtime {
namespace {

class StepChecker {
 public:
  StepChecker(PlanFacts& plan, bool prologue) : p_(plan), in_prologue_(prologue) {}

  absl::Status Run() {
    const auto* steps = in_prologue_ ? p_.plan.prologue() : p_.plan.steps();
    for (uint32_t i = 0; i < Count(steps); ++i) {
      absl::Status status = CheckStep(*steps->Get(i));
      if (!status.ok()) return WithWhere(std::move(status), absl::StrCat(in_prologue_ ? "prologue" : "step", " ", i));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckStep(const plan::Step& step) {
    if (step.kind() == nullptr) return Corrupt("the step is empty");
    switch (step.kind_type()) {
      case plan::StepKind::KernelStep: return CheckKernelStep(*step.kind_as_KernelStep());
      case plan::StepKind::LibraryStep: return CheckLibraryStep(*step.kind_as_LibraryStep());
      case plan::StepKind::ExternStep: return CheckExternStep(*step.kind_as_ExternStep());
      case plan::StepKind::ReadScalar: return CheckReadScalar(*step.kind_as_ReadScalar());
      case plan::StepKind::If: return CheckIf(*step.kind_as_If());
      case plan::StepKind::While: return CheckWhile(*step.kind_as_While());
      case plan::StepKind::CallPlan:
        return CheckCall(step.kind_as_CallPlan()->plan(), step.kind_as_CallPlan()->buffers());
      case plan::StepKind::NONE: break;
    }
    return Corrupt("the step is of an unknown kind");
  }

  absl::Status Read(uint32_t index) const {
    RETURN_IF_ERROR(p_.Index(index, Count(p_.plan.buffers()), "buffer"));
    if (!in_prologue_) return absl::OkStatus();
    const plan::Buffer& buffer = p_.BufferAt(index);
    if (buffer.storage() == plan::Storage::Output ||
        (buffer.storage() == plan::Storage::Input && !p_.frozen[buffer.index()])) {
      return Corrupt("the prologue uses what only a run has");
    }
    for (const Entries* entries : {buffer.sizes(), buffer.strides()}) {
      for (uint32_t i = 0; i < Count(entries); ++i) RETURN_IF_ERROR(Constant(entries->Get(i)));
    }
    RETURN_IF_ERROR(Constant(buffer.offset()));
    return Constant(buffer.bytes());
  }
  absl::Status Constant(uint32_t entry) const {
    if (!in_prologue_ || p_.known[entry] == Known::kAlways) return absl::OkStatus();
    return Corrupt("the prologue uses a size that depends on symbols");
  }
  absl::Status Write(uint32_t index) const {
    RETURN_IF_ERROR(Read(index));
    const plan::Buffer& buffer = p_.BufferAt(index);
    switch (buffer.storage()) {
      case plan::Storage::Output:
      case plan::Storage::Arena: return absl::OkStatus();
      case plan::Storage::Input:
        return p_.mutated[buffer.index()] ? absl::OkStatus() : Corrupt("a step writes an input that no output mutates");
      case plan::Storage::Session:
        return in_prologue_ ? absl::OkStatus() : Corrupt("a run's step writes session memory");
      case plan::Storage::Constant: break;
    }
    return Corrupt("a step writes a constant");
  }

  absl::Status CheckKernelStep(const plan::KernelStep& step) const {
    RETURN_IF_ERROR(p_.Index(step.kernel(), Count(p_.plan.kernels()), "kernel"));
    if (Count(step.writes()) != Count(step.buffers())) return Corrupt("writes does not tell of every buffer");
    for (uint32_t i = 0; i < Count(step.buffers()); ++i) {
      RETURN_IF_ERROR(step.writes()->Get(i) ? Write(step.buffers()->Get(i)) : Read(step.buffers()->Get(i)));
    }
    RETURN_IF_ERROR(CheckInPlace(step));
    RETURN_IF_ERROR(p_.EachEntry(step.scalars(), "a scalar"));
    for (uint32_t i = 0; i < Count(step.scalars()); ++i) RETURN_IF_ERROR(Constant(step.scalars()->Get(i)));
    for (uint32_t entry : {step.extent(), step.scratch_bytes()}) {
      RETURN_IF_ERROR(p_.Entry(entry, "the step"));
      RETURN_IF_ERROR(Constant(entry));
    }
    if (p_.ForGpu()) RETURN_IF_ERROR(CheckLaunch(step));
    return step.grain() >= 1 ? absl::OkStatus() : Corrupt("grain is under 1");
  }

  absl::Status CheckInPlace(const plan::KernelStep& step) const {
    if (Count(step.in_place()) % 2 != 0) return Corrupt("in_place is no list of pairs");
    for (uint32_t i = 0; i < Count(step.in_place()); ++i) {
      const uint32_t place = step.in_place()->Get(i);
      RETURN_IF_ERROR(p_.Index(place, Count(step.buffers()), "kernel's buffer"));
      if ((step.writes()->Get(place) != 0) != (i % 2 == 0))
        return Corrupt("in_place is not of what is written and read");
    }
    return absl::OkStatus();
  }

  absl::Status CheckLaunch(const plan::KernelStep& step) const {
    constexpr uint64_t kMostThreads = 1024;
    if (Count(step.grid()) < 1 || Count(step.grid()) > 3 || Count(step.block()) < 1 || Count(step.block()) > 3) {
      return Corrupt("a launch has no grid or no block");
    }
    uint64_t threads = 1;
    for (uint32_t i = 0; i < Count(step.block()); ++i) {
      const uint64_t size = step.block()->Get(i);
      if (size < 1 || size > kMostThreads) return Corrupt("a block's size is out of range");
      threads *= size;
    }
    if (threads > kMostThreads) return Corrupt("a block has too many threads");
    RETURN_IF_ERROR(p_.EachEntry(step.grid(), "a grid"));
    for (uint32_t i = 0; i < Count(step.grid()); ++i) RETURN_IF_ERROR(Constant(step.grid()->Get(i)));
    RETURN_IF_ERROR(p_.Entry(step.shared_bytes(), "shared memory"));
    return Constant(step.shared_bytes());
  }

  absl::Status CheckOperand(const plan::Operand* operand, bool written) const {
    if (operand == nullptr) return Corrupt("an operand is missing");
    RETURN_IF_ERROR(written ? Write(operand->buffer()) : Read(operand->buffer()));
    RETURN_IF_ERROR(p_.Shape(operand->sizes(), operand->strides(), "an operand"));
    RETURN_IF_ERROR(p_.Entry(operand->offset(), "an operand"));
    for (const Entries* entries : {operand->sizes(), operand->strides()}) {
      for (uint32_t i = 0; i < Count(entries); ++i) RETURN_IF_ERROR(Constant(entries->Get(i)));
    }
    return Constant(operand->offset());
  }

  absl::Status CheckLibraryStep(const plan::LibraryStep& step) const {
    if (step.op() > plan::LibraryOp::AttentionGrad) {
      return MakeError(absl::StatusCode::kFailedPrecondition,
                       {.kind = "incompatible_plan",
                        .message = absl::StrCat("this runtime has no library operation ", static_cast<int>(step.op())),
                        .where = "",
                        .fix = "compile again for this runtime, or update it"});
    }
    if (Count(step.operands()) != 2) return Corrupt("a library call has not two operands");
    if (!Aligned(step.stride()) || !Aligned(step.padding()) || !Aligned(step.dilation()) ||
        !Aligned(step.output_padding()))
      return Corrupt("numbers of a convolution are not aligned");
    const uint32_t frozen = Count(step.frozen());
    if (frozen != 0 && frozen != 2) return Corrupt("frozen does not tell of every operand");
    for (uint32_t i = 0; i < 2; ++i) {
      const plan::Operand* operand = step.operands()->Get(i);
      RETURN_IF_ERROR(CheckOperand(operand, false));
      const plan::Buffer& buffer = p_.BufferAt(operand->buffer());
      const bool stays = buffer.storage() == plan::Storage::Session || buffer.storage() == plan::Storage::Constant ||
                         (buffer.storage() == plan::Storage::Input && p_.frozen[buffer.index()]);
      if (frozen == 2 && step.frozen()->Get(i) && !stays) return Corrupt("an operand is called frozen and is not");
    }
    RETURN_IF_ERROR(CheckOperand(step.result(), true));
    for (uint32_t i = 0; i < Count(step.more_results()); ++i) {
      RETURN_IF_ERROR(CheckOperand(step.more_results()->Get(i), true));
    }
    for (uint32_t i = 0; i < Count(step.epilogue()); ++i) {
      const plan::Epilogue& epilogue = *step.epilogue()->Get(i);
      if (epilogue.op() > plan::EpilogueOp::MAX) return Corrupt("an epilogue is unknown");
      if (!library::TakesOperand(static_cast<int32_t>(epilogue.op()))) continue;
      RETURN_IF_ERROR(CheckOperand(epilogue.operand(), false));
    }
    return absl::OkStatus();
  }

  absl::Status CheckExternStep(const plan::ExternStep& step) {
    for (uint32_t i = 0; i < Count(step.operands()); ++i) RETURN_IF_ERROR(CheckOperand(step.operands()->Get(i), false));
    for (uint32_t i = 0; i < Count(step.results()); ++i) RETURN_IF_ERROR(Write(step.results()->Get(i)));
    for (uint32_t i = 0; i < Count(step.defines()); ++i) RETURN_IF_ERROR(Define(step.defines()->Get(i)));
    return absl::OkStatus();
  }

  absl::Status Define(uint32_t symbol) {
    RETURN_IF_ERROR(p_.Index(symbol, Count(p_.plan.symbols()), "symbol"));
    if (in_prologue_) return Corrupt("the prologue defines a symbol");
    if (p_.plan.symbols()->Get(symbol)->input() >= 0) return Corrupt("a step defines a symbol that an input binds");
    p_.defined.insert(symbol);
    return absl::OkStatus();
  }

  absl::Status CheckReadScalar(const plan::ReadScalar& step) {
    RETURN_IF_ERROR(Scalar(step.buffer()));
    return Define(step.symbol());
  }
  // A boolean or an integer.
  absl::Status Scalar(uint32_t index) const {
    RETURN_IF_ERROR(Read(index));
    if (p_.BufferAt(index).dtype() > plan::DType::I64) return Corrupt("a scalar that steers is no integer");
    return absl::OkStatus();
  }

  absl::Status CheckIf(const plan::If& step) const {
    RETURN_IF_ERROR(Scalar(step.condition()));
    RETURN_IF_ERROR(CheckCall(step.then_plan(), step.buffers()));
    return CheckCall(step.else_plan(), step.buffers());
  }

  absl::Status CheckWhile(const plan::While& step) const {
    RETURN_IF_ERROR(CheckCall(step.body_plan(), step.buffers()));
    RETURN_IF_ERROR(p_.Index(step.condition_plan(), Count(p_.plan.subplans()), "subplan"));
    const plan::Plan& condition = *p_.plan.subplans()->Get(step.condition_plan());
    const plan::Plan& body = *p_.plan.subplans()->Get(step.body_plan());
    if (Count(condition.inputs()) != Count(step.buffers()) || Count(body.inputs()) != Count(step.buffers())) {
      return Corrupt("a loop's plans do not take its buffers");
    }
    if (Count(condition.outputs()) != 1 || condition.outputs()->Get(0)->mutates() >= 0) {
      return Corrupt("a loop's condition has not one result");
    }
    return step.limit() >= 1 ? absl::OkStatus() : Corrupt("a loop has no limit");
  }

  // The subplan's inputs, then its outputs that mutate nothing. What it writes must be writable here.
  absl::Status CheckCall(uint32_t subplan, const Entries* buffers) const {
    RETURN_IF_ERROR(p_.Index(subplan, Count(p_.plan.subplans()), "subplan"));
    const plan::Plan& callee = *p_.plan.subplans()->Get(subplan);
    std::vector<bool> written(Count(callee.inputs()), false);
    for (uint32_t i = 0; i < Count(callee.outputs()); ++i) {
      const int32_t mutates = callee.outputs()->Get(i)->mutates();
      if (mutates < 0) {
        written.push_back(true);
      } else if (static_cast<uint32_t>(mutates) < Count(callee.inputs())) {
        written[static_cast<size_t>(mutates)] = true;
      }
    }
    if (written.size() != Count(buffers)) return Corrupt("a subplan does not take the buffers that it is given");
    for (uint32_t i = 0; i < Count(buffers); ++i) {
      RETURN_IF_ERROR(written[i] ? Write(buffers->Get(i)) : Read(buffers->Get(i)));
    }
    return absl::OkStatus();
  }

  PlanFacts& p_;
  const bool in_prologue_;
};

}  // namespace

absl::Status CheckSteps(PlanFacts& plan, bool prologue) { return StepChecker(plan, prologue).Run(); }

}  // namespace preheat::runtime
