#include "kernels/runtime/bound_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/bind.h"
#include "kernels/runtime/size_text.h"

namespace preheat::runtime {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 47;  // what an address space holds

absl::Status Corrupt(std::string message) {
  return MakeError(
      absl::StatusCode::kDataLoss,
      {.kind = "corrupt_artifact", .message = std::move(message), .where = "", .fix = "fetch the artifact again"});
}

using Entries = flatbuffers::Vector<uint32_t>;

class Binder {
 public:
  Binder(const LoadedPlan& loaded, Part part, BoundPlan& bound)
      : loaded_(loaded), plan_(*loaded.plan), part_(part), bound_(bound) {}

  absl::Status Run(const int64_t* symbols) {
    bound_.loaded = &loaded_;
    bound_.symbols.assign(symbols, symbols + loaded_.num_symbols());
    bound_.values.resize(plan_.sizes()->size());
    RETURN_IF_ERROR(EvaluateSizes(plan_, symbols, bound_.values.data()));
    if (part_ == Part::kRun) RETURN_IF_ERROR(CheckGuards(loaded_, bound_.values.data()));
    RETURN_IF_ERROR(BindMemory());
    for (uint32_t i = 0; i < Count(plan_.buffers()); ++i) {
      absl::Status status = BindBuffer(*plan_.buffers()->Get(i));
      if (!status.ok()) return WithWhere(std::move(status), absl::StrCat("buffer ", i));
    }
    const auto* steps = part_ == Part::kRun ? plan_.steps() : plan_.prologue();
    for (uint32_t i = 0; i < Count(steps); ++i) {
      absl::Status status = BindStep(*steps->Get(i));
      if (!status.ok()) return WithWhere(std::move(status), absl::StrCat("step ", i));
    }
    return absl::OkStatus();
  }

 private:
  int64_t Value(uint32_t entry) const { return bound_.values[entry]; }

  absl::Status BindMemory() {
    bound_.arena_bytes = Value(plan_.arena_bytes());
    session_bytes_ = Value(plan_.session_bytes());
    if (bound_.arena_bytes < 0 || bound_.arena_bytes > kMaxBytes || session_bytes_ < 0 || session_bytes_ > kMaxBytes) {
      return Corrupt("the arena's or the session's size is out of range");
    }
    return absl::OkStatus();
  }

  // Numbers of a list of entries, kept as long as the bound plan.
  const int64_t* Numbers(const Entries* entries) {
    const uint32_t count = Count(entries);
    bound_.numbers.push_back(std::make_unique<int64_t[]>(std::max<uint32_t>(1, count)));
    for (uint32_t i = 0; i < count; ++i) bound_.numbers.back()[i] = Value(entries->Get(i));
    return bound_.numbers.back().get();
  }

  // Elements that the shape reaches over, 0 when it is empty; an error when that is more than any memory.
  absl::StatusOr<int64_t> Extent(const int64_t* sizes, const int64_t* strides, uint32_t rank) const {
    int64_t reach = 1;
    bool empty = false;
    for (uint32_t i = 0; i < rank; ++i) {
      int64_t span = 0;
      if (sizes[i] < 0 || strides[i] < 0) return Corrupt("a size or stride is negative");
      empty = empty || sizes[i] == 0;
      if (__builtin_mul_overflow(std::max<int64_t>(sizes[i], 1) - 1, strides[i], &span) || span > kMaxBytes) {
        return Corrupt("a tensor is larger than any memory");
      }
      reach += span;  // rank and span are bounded
    }
    if (reach > kMaxBytes) return Corrupt("a tensor is larger than any memory");
    return empty ? 0 : reach;
  }

  // What only a run's symbols tell is no business of the prologue: such buffers are bound, not checked, and not used.
  absl::Status BindBuffer(const plan::Buffer& buffer) {
    const uint32_t rank = Count(buffer.sizes());
    BoundBuffer b{buffer.storage(),
                  buffer.index(),
                  Value(buffer.offset()),
                  static_cast<int32_t>(buffer.dtype()),
                  static_cast<int32_t>(rank),
                  Numbers(buffer.sizes()),
                  Numbers(buffer.strides()),
                  false,
                  -1};
    if (!Waits(buffer)) {
      ASSIGN_OR_RETURN(const int64_t elements, Extent(b.sizes, b.strides, rank));
      b.empty = elements == 0;
      b.bytes = elements * ElementSize(buffer.dtype());
      RETURN_IF_ERROR(CheckPlace(buffer, &b.bytes));
    }
    bound_.buffers.push_back(b);
    return absl::OkStatus();
  }

  bool Waits(const plan::Buffer& buffer) const {
    if (part_ == Part::kRun) return false;
    const auto waits = [&](uint32_t entry) { return loaded_.known[entry] != Known::kAlways; };
    const auto any = [&](const Entries* entries) {
      return entries != nullptr && std::any_of(entries->begin(), entries->end(), waits);
    };
    return waits(buffer.offset()) || waits(buffer.bytes()) || any(buffer.sizes()) || any(buffer.strides());
  }

  // Inside its storage? `bytes`: what its shape needs; made what the buffer may be used for.
  absl::Status CheckPlace(const plan::Buffer& buffer, int64_t* bytes) {
    if (buffer.storage() == plan::Storage::Input || buffer.storage() == plan::Storage::Output) {
      return CheckBoundary(buffer, *bytes);
    }
    const int64_t offset = Value(buffer.offset()), size = Value(buffer.bytes());
    if (size < *bytes) return Corrupt("the buffer is smaller than its shape");
    const int64_t limit = buffer.storage() == plan::Storage::Session    ? session_bytes_
                          : buffer.storage() == plan::Storage::Constant ? Count(plan_.constants())
                                                                        : bound_.arena_bytes;
    if (offset < 0 || size < 0 || size > limit || offset > limit - size)
      return Corrupt("the buffer leaves its storage");
    if (offset % 64 != 0) return Corrupt("the buffer is not aligned");
    *bytes = size;
    return absl::OkStatus();
  }

  // A second buffer of an input or output sees no more than the tensor that the caller has been asked for.
  absl::Status CheckBoundary(const plan::Buffer& buffer, int64_t bytes) const {
    const bool input = buffer.storage() == plan::Storage::Input;
    const plan::Buffer& own = input ? loaded_.input_buffer(buffer.index()) : loaded_.output_buffer(buffer.index());
    if (&own == &buffer) return absl::OkStatus();
    int64_t reach = 1;
    for (uint32_t d = 0; d < Count(own.sizes()); ++d) {
      const int64_t size = Value(own.sizes()->Get(d)), stride = Value(own.strides()->Get(d));
      int64_t span = 0;
      if (size <= 0) return bytes == 0 ? absl::OkStatus() : Corrupt("the buffer sees more than its tensor");
      if (stride < 0 || __builtin_mul_overflow(size - 1, stride, &span) || span > kMaxBytes) {
        return Corrupt("a tensor is larger than any memory");
      }
      reach += span;
    }
    if (bytes > reach * ElementSize(own.dtype())) return Corrupt("the buffer sees more than its tensor");
    return absl::OkStatus();
  }

  absl::StatusOr<BoundOperand> BindOperand(const plan::Operand& operand) {
    const BoundBuffer& buffer = bound_.buffers[operand.buffer()];
    const int64_t element = ElementSize(static_cast<plan::DType>(buffer.dtype));
    const uint32_t rank = Count(operand.sizes());
    BoundOperand b{operand.buffer(),          0, buffer.dtype, static_cast<int32_t>(rank), Numbers(operand.sizes()),
                   Numbers(operand.strides())};
    ASSIGN_OR_RETURN(const int64_t elements, Extent(b.sizes, b.strides, rank));
    const int64_t offset = Value(operand.offset()), limit = buffer.bytes / element;
    if (buffer.bytes < 0) return Corrupt("an operand's buffer has no size here");
    if (offset < 0 || offset > limit || elements > limit - offset) return Corrupt("an operand leaves its buffer");
    b.offset = offset * element;
    return b;
  }

  absl::Status BindStep(const plan::Step& step) {
    switch (step.kind_type()) {
      case plan::StepKind::KernelStep: return BindKernel(*step.kind_as_KernelStep());
      case plan::StepKind::LibraryStep: return BindLibrary(*step.kind_as_LibraryStep());
      case plan::StepKind::ExternStep: return BindExtern(*step.kind_as_ExternStep());
      case plan::StepKind::ReadScalar: RETURN_IF_ERROR(CheckScalar(step.kind_as_ReadScalar()->buffer())); break;
      case plan::StepKind::If: RETURN_IF_ERROR(CheckScalar(step.kind_as_If()->condition())); break;
      default: break;
    }
    const char* name = plan::EnumNameStepKind(step.kind_type());
    bound_.steps.push_back({step.kind_type(), static_cast<uint32_t>(bound_.controls.size())});
    bound_.controls.push_back({name, &step});
    return absl::OkStatus();
  }

  absl::Status CheckScalar(uint32_t buffer) const {
    return bound_.buffers[buffer].empty ? Corrupt("a scalar that steers is empty") : absl::OkStatus();
  }

  absl::Status BindKernel(const plan::KernelStep& step) {
    const int64_t scratch = Value(step.scratch_bytes()), extent = Value(step.extent());
    if (scratch < 0 || scratch > kMaxBytes || extent < 0)
      return Corrupt("a kernel's extent or scratch is out of range");
    for (uint32_t i = 0; i < Count(step.buffers()); ++i) {
      if (bound_.buffers[step.buffers()->Get(i)].bytes < 0) return Corrupt("a kernel's buffer has no size here");
    }
    RETURN_IF_ERROR(CheckApart(step));
    bound_.steps.push_back({plan::StepKind::KernelStep, static_cast<uint32_t>(bound_.kernels.size())});
    bound_.kernels.push_back({Text(plan_.kernels()->Get(step.kernel())->name()),
                              loaded_.functions[step.kernel()],
                              static_cast<uint32_t>(bound_.arguments.size()),
                              Count(step.buffers()),
                              Numbers(step.scalars()),
                              extent,
                              step.grain(),
                              (scratch + 63) / 64 * 64,
                              Count(step.scalars()),
                              {1, 1, 1},
                              {1, 1, 1},
                              0});
    RETURN_IF_ERROR(BindLaunch(step, bound_.kernels.back()));
    for (uint32_t i = 0; i < Count(step.buffers()); ++i) {
      bound_.arguments.push_back(step.buffers()->Get(i));
      bound_.written.push_back(step.writes()->Get(i) ? 1 : 0);
    }
    return absl::OkStatus();
  }

  // Kernels take for granted that what they write is no other buffer's memory, but for pairs that they name.
  absl::Status CheckApart(const plan::KernelStep& step) const {
    const uint32_t count = Count(step.buffers());
    for (uint32_t w = 0; w < count; ++w) {
      if (!step.writes()->Get(w)) continue;
      for (uint32_t r = 0; r < count; ++r) {
        const uint32_t written = step.buffers()->Get(w), other = step.buffers()->Get(r);
        if (r == w || !Overlap(written, other)) continue;
        const bool same = bound_.buffers[written].offset == bound_.buffers[other].offset;
        if (!same || bound_.buffers[written].bytes != bound_.buffers[other].bytes || !MayBeInPlace(step, w, r))
          return Corrupt("a kernel's buffers overlap");
      }
    }
    return absl::OkStatus();
  }

  static bool MayBeInPlace(const plan::KernelStep& step, uint32_t written, uint32_t read) {
    for (uint32_t i = 0; i + 1 < Count(step.in_place()); i += 2) {
      if (step.in_place()->Get(i) == written && step.in_place()->Get(i + 1) == read) return true;
    }
    return false;
  }

  // Of the run's own memory and of results.
  bool Overlap(uint32_t a, uint32_t b) const {
    const BoundBuffer &x = bound_.buffers[a], &y = bound_.buffers[b];
    if (x.storage != y.storage || x.empty || y.empty) return false;
    if (x.storage == plan::Storage::Output) return x.index == y.index;
    if (x.storage != plan::Storage::Arena && x.storage != plan::Storage::Session) return false;
    return x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
  }

  // Limits of every GPU's launches. check_plan has looked at the block.
  absl::Status BindLaunch(const plan::KernelStep& step, BoundKernel& kernel) const {
    constexpr int64_t kMostBlocks[] = {INT32_MAX, 65535, 65535}, kMostShared = 227 << 10;
    for (uint32_t i = 0; i < Count(step.grid()); ++i) {
      const int64_t blocks = Value(step.grid()->Get(i));
      if (blocks < 0 || blocks > kMostBlocks[i]) return Corrupt("a kernel has too many blocks");
      kernel.grid[i] = static_cast<uint32_t>(blocks);
    }
    for (uint32_t i = 0; i < Count(step.block()); ++i) kernel.block[i] = step.block()->Get(i);
    kernel.shared_bytes = Value(step.shared_bytes());
    if (kernel.shared_bytes < 0 || kernel.shared_bytes > kMostShared) return Corrupt("too much shared memory");
    return absl::OkStatus();
  }

  absl::Status BindLibrary(const plan::LibraryStep& step) {
    static constexpr const char* kNames[] = {"matmul",           "conv",      "conv_grad_input",
                                             "conv_grad_weight", "attention", "attention_grad"};
    auto library = std::make_unique<BoundLibrary>();
    library->name = kNames[static_cast<int>(step.op())];
    library->step = &step;
    for (uint32_t i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(library->operands[i], BindOperand(*step.operands()->Get(i)));
    }
    ASSIGN_OR_RETURN(library->result, BindOperand(*step.result()));
    for (uint32_t i = 0; i < Count(step.more_results()); ++i) {
      ASSIGN_OR_RETURN(BoundOperand more, BindOperand(*step.more_results()->Get(i)));
      library->more_results.push_back(more);
    }
    for (uint32_t i = 0; i < Count(step.epilogue()); ++i) {
      const plan::Epilogue& epilogue = *step.epilogue()->Get(i);
      BoundOperand operand{kNoBuffer, 0, 0, 0, nullptr, nullptr};
      if (library::TakesOperand(static_cast<int32_t>(epilogue.op()))) {
        ASSIGN_OR_RETURN(operand, BindOperand(*epilogue.operand()));
      }
      library->epilogue.push_back(operand);
    }
    RETURN_IF_ERROR(CheckDisjoint(*library));
    const absl::Status checked = library::CheckCall(SpecOf(*library));
    if (!checked.ok()) return Corrupt(std::string(checked.message()));
    bound_.steps.push_back({plan::StepKind::LibraryStep, static_cast<uint32_t>(bound_.libraries.size())});
    bound_.libraries.push_back(std::move(library));
    return absl::OkStatus();
  }

  // Libraries may write the result before they have read the last of an operand.
  absl::Status CheckDisjoint(const BoundLibrary& library) {
    std::vector<const BoundOperand*> operands = {&library.operands[0], &library.operands[1]};
    for (const BoundOperand& operand : library.epilogue) {
      if (operand.buffer != kNoBuffer) operands.push_back(&operand);
    }
    std::vector<const BoundOperand*> results = {&library.result};
    for (const BoundOperand& more : library.more_results) results.push_back(&more);
    for (const BoundOperand* result : results) {
      for (const BoundOperand* operand : operands) {
        if (Overlap(*operand, *result)) return Corrupt("a library call's result overlaps an operand");
      }
      operands.push_back(result);  // nor may the next result overlap this one
    }
    return absl::OkStatus();
  }

  bool Overlap(const BoundOperand& a, const BoundOperand& b) const {
    const BoundBuffer &x = bound_.buffers[a.buffer], &y = bound_.buffers[b.buffer];
    if (x.storage != y.storage) return false;
    const bool boundary = x.storage == plan::Storage::Input || x.storage == plan::Storage::Output;
    if (boundary && x.index != y.index) return false;
    const int64_t begin_a = (boundary ? 0 : x.offset) + a.offset, begin_b = (boundary ? 0 : y.offset) + b.offset;
    return begin_a < begin_b + ReachOf(b) && begin_b < begin_a + ReachOf(a);
  }
  // REQUIRES: the operand is bound, so that its extent is known to fit.
  int64_t ReachOf(const BoundOperand& operand) const {
    return Extent(operand.sizes, operand.strides, static_cast<uint32_t>(operand.rank)).value_or(0) *
           ElementSize(static_cast<plan::DType>(operand.dtype));
  }

  absl::Status BindExtern(const plan::ExternStep& step) {
    BoundExtern b{absl::StrCat("extern ", Text(step.op())), &step, "", {}};
    ASSIGN_OR_RETURN(b.call, SubstituteSizes(Text(step.call()), plan_, bound_.symbols.data()));
    for (uint32_t i = 0; i < Count(step.operands()); ++i) {
      ASSIGN_OR_RETURN(BoundOperand operand, BindOperand(*step.operands()->Get(i)));
      b.operands.push_back(operand);
    }
    bound_.steps.push_back({plan::StepKind::ExternStep, static_cast<uint32_t>(bound_.externs.size())});
    bound_.externs.push_back(std::move(b));
    return absl::OkStatus();
  }

  const LoadedPlan& loaded_;
  const plan::Plan& plan_;
  const Part part_;
  BoundPlan& bound_;
  int64_t session_bytes_ = 0;
};

library::TensorSpec TensorOf(const BoundOperand& operand) {
  return {
      operand.dtype, {operand.sizes, operand.sizes + operand.rank}, {operand.strides, operand.strides + operand.rank}};
}

std::vector<int64_t> ListOf(const flatbuffers::Vector<int64_t>* v, size_t count, int64_t missing) {
  std::vector<int64_t> list(v != nullptr ? std::vector<int64_t>(v->begin(), v->end()) : std::vector<int64_t>());
  if (list.empty()) list.assign(count, missing);
  return list;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BoundPlan>> Bind(const LoadedPlan& loaded, Part part, const int64_t* symbols) {
  auto bound = std::make_unique<BoundPlan>();
  RETURN_IF_ERROR(Binder(loaded, part, *bound).Run(symbols));
  return bound;
}

library::CallSpec SpecOf(const BoundLibrary& bound) {
  const plan::LibraryStep& step = *bound.step;
  library::CallSpec call;
  call.op = static_cast<int32_t>(step.op());
  call.operands[0] = TensorOf(bound.operands[0]);
  call.operands[1] = TensorOf(bound.operands[1]);
  call.result = TensorOf(bound.result);
  for (const BoundOperand& more : bound.more_results) call.more_results.push_back(TensorOf(more));
  call.scale = step.scale();
  if (step.op() != plan::LibraryOp::MatMul && step.op() < plan::LibraryOp::Attention) {
    const size_t spatial = static_cast<size_t>(std::max(bound.result.rank - 2, 0));
    call.stride = ListOf(step.stride(), spatial, 1);
    call.padding = ListOf(step.padding(), spatial, 0);
    call.dilation = ListOf(step.dilation(), spatial, 1);
    call.groups = step.groups();
    call.transposed = step.transposed();
  }
  for (size_t i = 0; i < bound.epilogue.size(); ++i) {
    const BoundOperand& operand = bound.epilogue[i];
    call.epilogue.push_back({static_cast<int32_t>(step.epilogue()->Get(static_cast<uint32_t>(i))->op()),
                             operand.buffer != kNoBuffer ? TensorOf(operand) : library::TensorSpec()});
  }
  if (const auto* algorithm = step.algorithm()) call.algorithm.assign(algorithm->begin(), algorithm->end());
  for (uint32_t i = 0; i < 2; ++i) call.frozen[i] = Count(step.frozen()) == 2 && step.frozen()->Get(i);
  return call;
}

const char* NameOf(const BoundPlan& plan, const BoundStep& step) {
  switch (step.kind) {
    case plan::StepKind::KernelStep: return plan.kernels[step.index].name;
    case plan::StepKind::LibraryStep: return plan.libraries[step.index]->name;
    case plan::StepKind::ExternStep: return plan.externs[step.index].name.c_str();
    default: return plan.controls[step.index].name;
  }
}

}  // namespace preheat::runtime
