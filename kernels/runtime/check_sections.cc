#include "kernels/runtime/check_sections.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::runtime {
namespace {

constexpr uint32_t kMaxSymbols = 4096;
constexpr uint32_t kMaxAlignment = 4096;

class SectionChecker {
 public:
  explicit SectionChecker(PlanFacts& plan) : p_(plan) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckSizes());
    p_.known = ClassifySizes(p_.plan);
    RETURN_IF_ERROR(CheckSymbols());
    RETURN_IF_ERROR(CheckGuards());
    RETURN_IF_ERROR(CheckBuffers());
    RETURN_IF_ERROR(CheckInputs());
    RETURN_IF_ERROR(CheckOutputs());
    return CheckKernels();
  }

 private:
  absl::Status CheckSizes() const {
    const auto* sizes = p_.plan.sizes();
    if (Count(sizes) == 0) return Corrupt("there is no size entry");
    if (!Aligned(sizes)) return Corrupt("size entries are not aligned");
    if (sizes->Get(0)->op() != plan::SizeOp::Const || sizes->Get(0)->a() != 0) return Corrupt("size entry 0 is not 0");
    for (uint32_t i = 0; i < sizes->size(); ++i) {
      const plan::SizeNode& node = *sizes->Get(i);
      const uint64_t a = static_cast<uint64_t>(node.a()), b = static_cast<uint64_t>(node.b());
      if (node.op() > plan::SizeOp::MAX) return Corrupt(absl::StrCat("size entry ", i, " has no known operator"));
      if (node.op() == plan::SizeOp::Const) continue;
      if (node.op() == plan::SizeOp::Symbol) {
        RETURN_IF_ERROR(p_.Index(a, Count(p_.plan.symbols()), "symbol"));
      } else if (a >= i || b >= i) {
        return Corrupt(absl::StrCat("size entry ", i, " refers to a later one"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSymbols() const {
    if (Count(p_.plan.symbols()) > kMaxSymbols) return Corrupt("too many symbols");
    for (uint32_t i = 0; i < Count(p_.plan.symbols()); ++i) {
      const plan::SymbolDef& symbol = *p_.plan.symbols()->Get(i);
      const std::string what = absl::StrCat("symbol ", i);
      if (symbol.min() > symbol.max()) return Corrupt(absl::StrCat(what, " has no value"));
      if (symbol.input() < -1 || symbol.dim() < -1) return Corrupt(absl::StrCat(what, " has a bad source"));
      if (symbol.input() < 0) continue;
      RETURN_IF_ERROR(p_.Index(static_cast<uint64_t>(symbol.input()), Count(p_.plan.inputs()), "input"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckGuards() const {
    for (uint32_t i = 0; i < Count(p_.plan.guards()); ++i) {
      RETURN_IF_ERROR(p_.Entry(p_.plan.guards()->Get(i)->size(), "a guard"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBuffers() const {
    if (Count(p_.plan.constants()) > 0 && reinterpret_cast<uintptr_t>(p_.plan.constants()->data()) % 64 != 0) {
      return Corrupt("constants are not aligned");
    }
    for (uint32_t i = 0; i < Count(p_.plan.buffers()); ++i) {
      const plan::Buffer& buffer = p_.BufferAt(i);
      const std::string what = absl::StrCat("buffer ", i);
      if (buffer.dtype() > plan::DType::MAX || buffer.storage() > plan::Storage::MAX) {
        return Corrupt(absl::StrCat(what, " has an unknown dtype or storage"));
      }
      if (buffer.storage() == plan::Storage::Input)
        RETURN_IF_ERROR(p_.Index(buffer.index(), Count(p_.plan.inputs()), "input"));
      if (buffer.storage() == plan::Storage::Output) {
        RETURN_IF_ERROR(p_.Index(buffer.index(), Count(p_.plan.outputs()), "output"));
      }
      RETURN_IF_ERROR(p_.Entry(buffer.offset(), what));
      RETURN_IF_ERROR(p_.Entry(buffer.bytes(), what));
      RETURN_IF_ERROR(p_.Shape(buffer.sizes(), buffer.strides(), what));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInputs() {
    p_.frozen.assign(Count(p_.plan.inputs()), false);
    p_.mutated.assign(Count(p_.plan.inputs()), false);
    for (uint32_t i = 0; i < Count(p_.plan.inputs()); ++i) {
      const plan::InputSpec& input = *p_.plan.inputs()->Get(i);
      const std::string what = absl::StrCat("input ", i);
      RETURN_IF_ERROR(p_.Index(input.buffer(), Count(p_.plan.buffers()), "buffer"));
      const plan::Buffer& buffer = p_.BufferAt(input.buffer());
      if (input.kind() > plan::InputKind::MAX) return Corrupt(absl::StrCat(what, " has an unknown kind"));
      if (buffer.storage() != plan::Storage::Input || buffer.index() != i) {
        return Corrupt(absl::StrCat(what, " has a buffer that is not its own"));
      }
      RETURN_IF_ERROR(p_.AtStart(buffer.sizes(), what));
      RETURN_IF_ERROR(p_.AtStart(buffer.strides(), what));
      const uint32_t alignment = input.alignment();
      if (alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
        return Corrupt(absl::StrCat(what, " has alignment ", alignment));
      }
      RETURN_IF_ERROR(CheckSource(i, input, buffer));
      p_.frozen[i] = input.frozen();
      p_.frozen_inputs = p_.frozen_inputs || input.frozen();
    }
    return absl::OkStatus();
  }

  // An integer input has one symbol that takes its value; symbols read dimensions that are there.
  absl::Status CheckSource(uint32_t index, const plan::InputSpec& input, const plan::Buffer& buffer) const {
    bool bound = false;
    for (uint32_t i = 0; i < Count(p_.plan.symbols()); ++i) {
      const plan::SymbolDef& symbol = *p_.plan.symbols()->Get(i);
      if (symbol.input() != static_cast<int32_t>(index)) continue;
      bound = bound || symbol.dim() < 0;
      if (symbol.dim() < 0 ? !input.is_size() : input.is_size()) {
        return Corrupt(absl::StrCat("symbol ", i, " has a bad source"));
      }
      if (symbol.dim() >= 0)
        RETURN_IF_ERROR(p_.Index(static_cast<uint64_t>(symbol.dim()), Count(buffer.sizes()), "dimension"));
    }
    if (!input.is_size()) return absl::OkStatus();
    if (!bound || input.frozen() || buffer.dtype() != plan::DType::I64 || Count(buffer.sizes()) != 0) {
      return Corrupt(absl::StrCat("input ", index, " is a size but no free i64 scalar with a symbol"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    for (uint32_t i = 0; i < Count(p_.plan.outputs()); ++i) {
      const plan::OutputSpec& output = *p_.plan.outputs()->Get(i);
      const std::string what = absl::StrCat("output ", i);
      RETURN_IF_ERROR(p_.Index(output.buffer(), Count(p_.plan.buffers()), "buffer"));
      const plan::Buffer& buffer = p_.BufferAt(output.buffer());
      const int64_t inputs = Count(p_.plan.inputs());
      if (output.mutates() < -1 || output.mutates() >= inputs || output.aliases_input() < -1 ||
          output.aliases_input() >= inputs) {
        return Corrupt(absl::StrCat(what, " names an input that is not there"));
      }
      if (output.mutates() >= 0) {
        const uint32_t input = static_cast<uint32_t>(output.mutates());
        if (buffer.storage() != plan::Storage::Input || buffer.index() != input || p_.frozen[input] ||
            p_.plan.inputs()->Get(input)->is_size()) {
          return Corrupt(absl::StrCat(what, " cannot be the memory of input ", input));
        }
        p_.mutated[input] = true;
      } else if (buffer.storage() != plan::Storage::Output || buffer.index() != i) {
        return Corrupt(absl::StrCat(what, " has a buffer that is not its own"));
      }
      RETURN_IF_ERROR(p_.AtStart(buffer.sizes(), what));
      RETURN_IF_ERROR(p_.AtStart(buffer.strides(), what));
    }
    return absl::OkStatus();
  }

  absl::Status CheckKernels() const {
    for (uint32_t i = 0; i < Count(p_.plan.code()); ++i) {
      const plan::Code& code = *p_.plan.code()->Get(i);
      if (code.kind() != (p_.ForGpu() ? plan::CodeKind::Cubin : plan::CodeKind::SharedObject)) {
        return Corrupt(absl::StrCat("code ", i, " is not of the target's kind"));
      }
      if (!IsDigest(Text(code.digest()))) return Corrupt(absl::StrCat("code ", i, " has no digest"));
    }
    for (uint32_t i = 0; i < Count(p_.plan.kernels()); ++i) {
      const plan::Kernel& kernel = *p_.plan.kernels()->Get(i);
      RETURN_IF_ERROR(p_.Index(kernel.code(), Count(p_.plan.code()), "code"));
      if (Text(kernel.symbol())[0] == '\0') return Corrupt(absl::StrCat("kernel ", i, " has no symbol"));
    }
    return absl::OkStatus();
  }

  PlanFacts& p_;
};

}  // namespace

absl::Status CheckSections(PlanFacts& plan) { return SectionChecker(plan).Run(); }

}  // namespace preheat::runtime
