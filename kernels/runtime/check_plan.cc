#include "kernels/runtime/check_plan.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/plan_version.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/size_table.h"

namespace preheat::runtime {
namespace {

constexpr int kMaxSubplanDepth = 8;
constexpr uint32_t kMaxSymbols = 4096;
constexpr uint32_t kMaxAlignment = 4096;

absl::Status Corrupt(absl::string_view message) {
  return MakeError(
      absl::StatusCode::kDataLoss,
      {.kind = "corrupt_artifact", .message = std::string(message), .where = "", .fix = "fetch the artifact again"});
}

// A list without holes (FlatBuffers allows vectors of tables to be absent, not their elements, which the verifier
// checks).
using Entries = flatbuffers::Vector<uint32_t>;

// Whether elements of eight bytes may be read in place: the verifier looks at the alignment of a vector's length alone.
// A vector without elements stands anywhere: FlatBuffers' builder aligns none.
template <typename T>
bool Aligned(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr || vector->size() == 0 ||
         reinterpret_cast<uintptr_t>(vector->Data()) % alignof(int64_t) == 0;
}

// One plan, without its subplans.
class Checker {
 public:
  explicit Checker(const plan::Plan& plan) : plan_(plan) {}

  absl::Status Run(bool is_subplan) {
    RETURN_IF_ERROR(CheckSizes());
    known_ = ClassifySizes(plan_);
    RETURN_IF_ERROR(CheckSymbols());
    RETURN_IF_ERROR(CheckGuards());
    RETURN_IF_ERROR(CheckBuffers());
    RETURN_IF_ERROR(CheckInputs());
    RETURN_IF_ERROR(CheckOutputs());
    RETURN_IF_ERROR(CheckKernels());
    if (is_subplan && (Count(plan_.prologue()) > 0 || frozen_inputs_)) {
      return Corrupt("a subplan has a prologue or frozen inputs");
    }
    RETURN_IF_ERROR(Entry(plan_.arena_bytes(), "arena_bytes"));
    RETURN_IF_ERROR(Entry(plan_.session_bytes(), "session_bytes"));
    if (known_[plan_.session_bytes()] != Known::kAlways) return Corrupt("session_bytes depends on symbols");
    in_prologue_ = true;
    RETURN_IF_ERROR(CheckSteps(plan_.prologue(), "prologue"));
    in_prologue_ = false;
    RETURN_IF_ERROR(CheckSteps(plan_.steps(), "step"));
    return CheckDefined();
  }

 private:
  // --- Indices ---
  absl::Status Entry(uint32_t entry, absl::string_view what) const {
    if (entry < plan_.sizes()->size()) return absl::OkStatus();
    return Corrupt(absl::StrCat(what, " names size entry ", entry, " of ", plan_.sizes()->size()));
  }
  absl::Status EachEntry(const Entries* entries, absl::string_view what) const {
    for (uint32_t i = 0; i < Count(entries); ++i) RETURN_IF_ERROR(Entry(entries->Get(i), what));
    return absl::OkStatus();
  }
  absl::Status Index(uint64_t index, uint64_t count, absl::string_view what) const {
    if (index < count) return absl::OkStatus();
    return Corrupt(absl::StrCat("there is no ", what, " ", index, ", only ", count));
  }
  absl::Status Shape(const Entries* sizes, const Entries* strides, absl::string_view what) const {
    if (Count(sizes) != Count(strides)) return Corrupt(absl::StrCat(what, ": sizes and strides differ in number"));
    if (Count(sizes) > kMaxRank) return Corrupt(absl::StrCat(what, " has rank ", Count(sizes)));
    RETURN_IF_ERROR(EachEntry(sizes, what));
    return EachEntry(strides, what);
  }
  // No entry waits for a step.
  absl::Status AtStart(const Entries* entries, absl::string_view what) const {
    for (uint32_t i = 0; i < Count(entries); ++i) {
      if (known_[entries->Get(i)] == Known::kAfterStep)
        return Corrupt(absl::StrCat(what, " depends on a step's result"));
    }
    return absl::OkStatus();
  }
  const plan::Buffer& BufferAt(uint32_t index) const { return *plan_.buffers()->Get(index); }

  // --- Sections ---
  absl::Status CheckSizes() const {
    const auto* sizes = plan_.sizes();
    if (Count(sizes) == 0) return Corrupt("there is no size entry");
    if (!Aligned(sizes)) return Corrupt("size entries are not aligned");
    if (sizes->Get(0)->op() != plan::SizeOp::Const || sizes->Get(0)->a() != 0) return Corrupt("size entry 0 is not 0");
    for (uint32_t i = 0; i < sizes->size(); ++i) {
      const plan::SizeNode& node = *sizes->Get(i);
      const uint64_t a = static_cast<uint64_t>(node.a()), b = static_cast<uint64_t>(node.b());
      if (node.op() > plan::SizeOp::MAX) return Corrupt(absl::StrCat("size entry ", i, " has no known operator"));
      if (node.op() == plan::SizeOp::Const) continue;
      if (node.op() == plan::SizeOp::Symbol) {
        RETURN_IF_ERROR(Index(a, Count(plan_.symbols()), "symbol"));
      } else if (a >= i || b >= i) {
        return Corrupt(absl::StrCat("size entry ", i, " refers to a later one"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSymbols() const {
    if (Count(plan_.symbols()) > kMaxSymbols) return Corrupt("too many symbols");
    for (uint32_t i = 0; i < Count(plan_.symbols()); ++i) {
      const plan::SymbolDef& symbol = *plan_.symbols()->Get(i);
      const std::string what = absl::StrCat("symbol ", i);
      if (symbol.min() > symbol.max()) return Corrupt(absl::StrCat(what, " has no value"));
      if (symbol.input() < -1 || symbol.dim() < -1) return Corrupt(absl::StrCat(what, " has a bad source"));
      if (symbol.input() < 0) continue;
      RETURN_IF_ERROR(Index(static_cast<uint64_t>(symbol.input()), Count(plan_.inputs()), "input"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckGuards() const {
    for (uint32_t i = 0; i < Count(plan_.guards()); ++i) {
      RETURN_IF_ERROR(Entry(plan_.guards()->Get(i)->size(), "a guard"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBuffers() const {
    if (Count(plan_.constants()) > 0 && reinterpret_cast<uintptr_t>(plan_.constants()->data()) % 64 != 0) {
      return Corrupt("constants are not aligned");
    }
    for (uint32_t i = 0; i < Count(plan_.buffers()); ++i) {
      const plan::Buffer& buffer = BufferAt(i);
      const std::string what = absl::StrCat("buffer ", i);
      if (buffer.dtype() > plan::DType::MAX || buffer.storage() > plan::Storage::MAX) {
        return Corrupt(absl::StrCat(what, " has an unknown dtype or storage"));
      }
      if (buffer.storage() == plan::Storage::Input)
        RETURN_IF_ERROR(Index(buffer.index(), Count(plan_.inputs()), "input"));
      if (buffer.storage() == plan::Storage::Output) {
        RETURN_IF_ERROR(Index(buffer.index(), Count(plan_.outputs()), "output"));
      }
      RETURN_IF_ERROR(Entry(buffer.offset(), what));
      RETURN_IF_ERROR(Entry(buffer.bytes(), what));
      RETURN_IF_ERROR(Shape(buffer.sizes(), buffer.strides(), what));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInputs() {
    frozen_.assign(Count(plan_.inputs()), false);
    mutated_.assign(Count(plan_.inputs()), false);
    for (uint32_t i = 0; i < Count(plan_.inputs()); ++i) {
      const plan::InputSpec& input = *plan_.inputs()->Get(i);
      const std::string what = absl::StrCat("input ", i);
      RETURN_IF_ERROR(Index(input.buffer(), Count(plan_.buffers()), "buffer"));
      const plan::Buffer& buffer = BufferAt(input.buffer());
      if (input.kind() > plan::InputKind::MAX) return Corrupt(absl::StrCat(what, " has an unknown kind"));
      if (buffer.storage() != plan::Storage::Input || buffer.index() != i) {
        return Corrupt(absl::StrCat(what, " has a buffer that is not its own"));
      }
      RETURN_IF_ERROR(AtStart(buffer.sizes(), what));
      RETURN_IF_ERROR(AtStart(buffer.strides(), what));
      const uint32_t alignment = input.alignment();
      if (alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
        return Corrupt(absl::StrCat(what, " has alignment ", alignment));
      }
      RETURN_IF_ERROR(CheckSource(i, input, buffer));
      frozen_[i] = input.frozen();
      frozen_inputs_ = frozen_inputs_ || input.frozen();
    }
    return absl::OkStatus();
  }

  // An integer input has one symbol that takes its value; symbols read dimensions that are there.
  absl::Status CheckSource(uint32_t index, const plan::InputSpec& input, const plan::Buffer& buffer) const {
    bool bound = false;
    for (uint32_t i = 0; i < Count(plan_.symbols()); ++i) {
      const plan::SymbolDef& symbol = *plan_.symbols()->Get(i);
      if (symbol.input() != static_cast<int32_t>(index)) continue;
      bound = bound || symbol.dim() < 0;
      if (symbol.dim() < 0 ? !input.is_size() : input.is_size()) {
        return Corrupt(absl::StrCat("symbol ", i, " has a bad source"));
      }
      if (symbol.dim() >= 0)
        RETURN_IF_ERROR(Index(static_cast<uint64_t>(symbol.dim()), Count(buffer.sizes()), "dimension"));
    }
    if (!input.is_size()) return absl::OkStatus();
    if (!bound || input.frozen() || buffer.dtype() != plan::DType::I64 || Count(buffer.sizes()) != 0) {
      return Corrupt(absl::StrCat("input ", index, " is a size but no free i64 scalar with a symbol"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    for (uint32_t i = 0; i < Count(plan_.outputs()); ++i) {
      const plan::OutputSpec& output = *plan_.outputs()->Get(i);
      const std::string what = absl::StrCat("output ", i);
      RETURN_IF_ERROR(Index(output.buffer(), Count(plan_.buffers()), "buffer"));
      const plan::Buffer& buffer = BufferAt(output.buffer());
      const int64_t inputs = Count(plan_.inputs());
      if (output.mutates() < -1 || output.mutates() >= inputs || output.aliases_input() < -1 ||
          output.aliases_input() >= inputs) {
        return Corrupt(absl::StrCat(what, " names an input that is not there"));
      }
      if (output.mutates() >= 0) {
        const uint32_t input = static_cast<uint32_t>(output.mutates());
        if (buffer.storage() != plan::Storage::Input || buffer.index() != input || frozen_[input] ||
            plan_.inputs()->Get(input)->is_size()) {
          return Corrupt(absl::StrCat(what, " cannot be the memory of input ", input));
        }
        mutated_[input] = true;
      } else if (buffer.storage() != plan::Storage::Output || buffer.index() != i) {
        return Corrupt(absl::StrCat(what, " has a buffer that is not its own"));
      }
      RETURN_IF_ERROR(AtStart(buffer.sizes(), what));
      RETURN_IF_ERROR(AtStart(buffer.strides(), what));
    }
    return absl::OkStatus();
  }

  absl::Status CheckKernels() const {
    for (uint32_t i = 0; i < Count(plan_.code()); ++i) {
      const plan::Code& code = *plan_.code()->Get(i);
      if (code.kind() != (ForGpu() ? plan::CodeKind::Cubin : plan::CodeKind::SharedObject)) {
        return Corrupt(absl::StrCat("code ", i, " is not of the target's kind"));
      }
      if (!IsDigest(Text(code.digest()))) return Corrupt(absl::StrCat("code ", i, " has no digest"));
    }
    for (uint32_t i = 0; i < Count(plan_.kernels()); ++i) {
      const plan::Kernel& kernel = *plan_.kernels()->Get(i);
      RETURN_IF_ERROR(Index(kernel.code(), Count(plan_.code()), "code"));
      if (Text(kernel.symbol())[0] == '\0') return Corrupt(absl::StrCat("kernel ", i, " has no symbol"));
    }
    return absl::OkStatus();
  }

  // --- Steps ---
  absl::Status CheckSteps(const flatbuffers::Vector<flatbuffers::Offset<plan::Step>>* steps, absl::string_view list) {
    for (uint32_t i = 0; i < Count(steps); ++i) {
      absl::Status status = CheckStep(*steps->Get(i));
      if (!status.ok()) return WithWhere(std::move(status), absl::StrCat(list, " ", i));
    }
    return absl::OkStatus();
  }

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
    RETURN_IF_ERROR(Index(index, Count(plan_.buffers()), "buffer"));
    if (!in_prologue_) return absl::OkStatus();
    const plan::Buffer& buffer = BufferAt(index);
    if (buffer.storage() == plan::Storage::Output ||
        (buffer.storage() == plan::Storage::Input && !frozen_[buffer.index()])) {
      return Corrupt("the prologue uses what only a run has");
    }
    for (const Entries* entries : {buffer.sizes(), buffer.strides()}) {
      for (uint32_t i = 0; i < Count(entries); ++i) RETURN_IF_ERROR(Constant(entries->Get(i)));
    }
    RETURN_IF_ERROR(Constant(buffer.offset()));
    return Constant(buffer.bytes());
  }
  absl::Status Constant(uint32_t entry) const {
    if (!in_prologue_ || known_[entry] == Known::kAlways) return absl::OkStatus();
    return Corrupt("the prologue uses a size that depends on symbols");
  }
  absl::Status Write(uint32_t index) const {
    RETURN_IF_ERROR(Read(index));
    const plan::Buffer& buffer = BufferAt(index);
    switch (buffer.storage()) {
      case plan::Storage::Output:
      case plan::Storage::Arena: return absl::OkStatus();
      case plan::Storage::Input:
        return mutated_[buffer.index()] ? absl::OkStatus() : Corrupt("a step writes an input that no output mutates");
      case plan::Storage::Session:
        return in_prologue_ ? absl::OkStatus() : Corrupt("a run's step writes session memory");
      case plan::Storage::Constant: break;
    }
    return Corrupt("a step writes a constant");
  }

  absl::Status CheckKernelStep(const plan::KernelStep& step) const {
    RETURN_IF_ERROR(Index(step.kernel(), Count(plan_.kernels()), "kernel"));
    if (Count(step.writes()) != Count(step.buffers())) return Corrupt("writes does not tell of every buffer");
    for (uint32_t i = 0; i < Count(step.buffers()); ++i) {
      RETURN_IF_ERROR(step.writes()->Get(i) ? Write(step.buffers()->Get(i)) : Read(step.buffers()->Get(i)));
    }
    RETURN_IF_ERROR(EachEntry(step.scalars(), "a scalar"));
    for (uint32_t i = 0; i < Count(step.scalars()); ++i) RETURN_IF_ERROR(Constant(step.scalars()->Get(i)));
    for (uint32_t entry : {step.extent(), step.scratch_bytes()}) {
      RETURN_IF_ERROR(Entry(entry, "the step"));
      RETURN_IF_ERROR(Constant(entry));
    }
    if (ForGpu()) RETURN_IF_ERROR(CheckLaunch(step));
    return step.grain() >= 1 ? absl::OkStatus() : Corrupt("grain is under 1");
  }

  bool ForGpu() const { return absl::StartsWith(Text(plan_.target()), "cuda:"); }

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
    RETURN_IF_ERROR(EachEntry(step.grid(), "a grid"));
    for (uint32_t i = 0; i < Count(step.grid()); ++i) RETURN_IF_ERROR(Constant(step.grid()->Get(i)));
    RETURN_IF_ERROR(Entry(step.shared_bytes(), "shared memory"));
    return Constant(step.shared_bytes());
  }

  absl::Status CheckOperand(const plan::Operand* operand, bool written) const {
    if (operand == nullptr) return Corrupt("an operand is missing");
    RETURN_IF_ERROR(written ? Write(operand->buffer()) : Read(operand->buffer()));
    RETURN_IF_ERROR(Shape(operand->sizes(), operand->strides(), "an operand"));
    RETURN_IF_ERROR(Entry(operand->offset(), "an operand"));
    for (const Entries* entries : {operand->sizes(), operand->strides()}) {
      for (uint32_t i = 0; i < Count(entries); ++i) RETURN_IF_ERROR(Constant(entries->Get(i)));
    }
    return Constant(operand->offset());
  }

  absl::Status CheckLibraryStep(const plan::LibraryStep& step) const {
    if (step.op() > plan::LibraryOp::ConvGradWeight) {
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
      const plan::Buffer& buffer = BufferAt(operand->buffer());
      const bool stays = buffer.storage() == plan::Storage::Session || buffer.storage() == plan::Storage::Constant ||
                         (buffer.storage() == plan::Storage::Input && frozen_[buffer.index()]);
      if (frozen == 2 && step.frozen()->Get(i) && !stays) return Corrupt("an operand is called frozen and is not");
    }
    RETURN_IF_ERROR(CheckOperand(step.result(), true));
    for (uint32_t i = 0; i < Count(step.epilogue()); ++i) {
      const plan::Epilogue& epilogue = *step.epilogue()->Get(i);
      if (epilogue.op() > plan::EpilogueOp::MAX) return Corrupt("an epilogue is unknown");
      if (epilogue.op() > plan::EpilogueOp::Residual) continue;
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
    RETURN_IF_ERROR(Index(symbol, Count(plan_.symbols()), "symbol"));
    if (in_prologue_) return Corrupt("the prologue defines a symbol");
    if (plan_.symbols()->Get(symbol)->input() >= 0) return Corrupt("a step defines a symbol that an input binds");
    defined_.insert(symbol);
    return absl::OkStatus();
  }

  absl::Status CheckReadScalar(const plan::ReadScalar& step) {
    RETURN_IF_ERROR(Scalar(step.buffer()));
    return Define(step.symbol());
  }
  // A boolean or an integer.
  absl::Status Scalar(uint32_t index) const {
    RETURN_IF_ERROR(Read(index));
    if (BufferAt(index).dtype() > plan::DType::I64) return Corrupt("a scalar that steers is no integer");
    return absl::OkStatus();
  }

  absl::Status CheckIf(const plan::If& step) const {
    RETURN_IF_ERROR(Scalar(step.condition()));
    RETURN_IF_ERROR(CheckCall(step.then_plan(), step.buffers()));
    return CheckCall(step.else_plan(), step.buffers());
  }

  absl::Status CheckWhile(const plan::While& step) const {
    RETURN_IF_ERROR(CheckCall(step.body_plan(), step.buffers()));
    RETURN_IF_ERROR(Index(step.condition_plan(), Count(plan_.subplans()), "subplan"));
    const plan::Plan& condition = *plan_.subplans()->Get(step.condition_plan());
    const plan::Plan& body = *plan_.subplans()->Get(step.body_plan());
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
    RETURN_IF_ERROR(Index(subplan, Count(plan_.subplans()), "subplan"));
    const plan::Plan& callee = *plan_.subplans()->Get(subplan);
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

  absl::Status CheckDefined() const {
    for (uint32_t i = 0; i < Count(plan_.symbols()); ++i) {
      if (plan_.symbols()->Get(i)->input() < 0 && defined_.count(i) == 0) {
        return Corrupt(absl::StrCat("nothing defines symbol ", i));
      }
    }
    return absl::OkStatus();
  }

  const plan::Plan& plan_;
  std::vector<Known> known_;
  std::vector<bool> frozen_, mutated_;  // one an input
  bool frozen_inputs_ = false;
  bool in_prologue_ = false;
  std::set<uint32_t> defined_;  // symbols
};

absl::Status CheckTree(const plan::Plan& plan, int depth) {
  if (depth > kMaxSubplanDepth) return Corrupt("subplans are nested too deep");
  RETURN_IF_ERROR(Checker(plan).Run(depth > 0));
  for (uint32_t i = 0; i < Count(plan.subplans()); ++i) {
    RETURN_IF_ERROR(WithWhere(CheckTree(*plan.subplans()->Get(i), depth + 1), absl::StrCat("subplan ", i)));
  }
  return absl::OkStatus();
}

absl::Status CheckVersion(uint32_t version) {
  if (version >= plan::kMinPlanVersion && version <= plan::kPlanVersion) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "incompatible_plan",
                    .message = absl::StrCat("the plan has version ", version, ", this runtime executes ",
                                            plan::kMinPlanVersion, " to ", plan::kPlanVersion),
                    .where = "",
                    .fix = version > plan::kPlanVersion ? "update the runtime" : "compile again"});
}

}  // namespace

absl::StatusOr<const plan::Plan*> CheckPlan(const void* bytes, size_t size) {
  constexpr flatbuffers::uoffset_t kMaxDepth = 64, kMaxTables = 4'000'000;
  if (size > FLATBUFFERS_MAX_BUFFER_SIZE) return Corrupt("the plan is larger than a plan can be");
  flatbuffers::Verifier verifier(static_cast<const uint8_t*>(bytes), size, kMaxDepth, kMaxTables);
  if (size < 16 || !plan::PlanBufferHasIdentifier(bytes) || !plan::VerifyPlanBuffer(verifier)) {
    return Corrupt("the plan is no plan, or is damaged");
  }
  const plan::Plan* plan = plan::GetPlan(bytes);
  RETURN_IF_ERROR(CheckVersion(plan->version()));
  RETURN_IF_ERROR(CheckTree(*plan, 0));
  return plan;
}

}  // namespace preheat::runtime
