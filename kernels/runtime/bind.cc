#include "kernels/runtime/bind.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::runtime {
namespace {

// "input 3", made into text only when there is something to say of it.
struct Place {
  const char* what;
  uint32_t number;
  std::string Text() const { return absl::StrCat(what, " ", number); }
};

absl::Status Mismatch(absl::string_view kind, const Place& where, std::string message, std::string fix) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::string(kind), .message = std::move(message), .where = where.Text(), .fix = std::move(fix)});
}

std::string List(const int64_t* values, int64_t count) {
  return absl::StrCat("[", absl::StrJoin(absl::MakeConstSpan(values, static_cast<size_t>(count)), ", "), "]");
}

struct Expected {
  const plan::Buffer& buffer;
  const int64_t* values;

  int64_t size(uint32_t d) const { return values[buffer.sizes()->Get(d)]; }
  int64_t stride(uint32_t d) const { return values[buffer.strides()->Get(d)]; }
  uint32_t rank() const { return Count(buffer.sizes()); }
  std::string Sizes() const {
    std::vector<int64_t> all;
    for (uint32_t d = 0; d < rank(); ++d) all.push_back(size(d));
    return List(all.data(), rank());
  }
  std::string Strides() const {
    std::vector<int64_t> all;
    for (uint32_t d = 0; d < rank(); ++d) all.push_back(stride(d));
    return List(all.data(), rank());
  }
};

bool SizesAgree(const Expected& expected, const preheat_tensor& tensor, bool* empty) {
  for (uint32_t d = 0; d < expected.rank(); ++d) {
    if (tensor.sizes[d] != expected.size(d)) return false;
    *empty = *empty || tensor.sizes[d] == 0;
  }
  return true;
}

bool StridesAgree(const Expected& expected, const preheat_tensor& tensor) {
  for (uint32_t d = 0; d < expected.rank(); ++d) {
    if (tensor.sizes[d] != 1 && tensor.strides[d] != expected.stride(d)) return false;
  }
  return true;
}

absl::Status CheckRank(const plan::Buffer& buffer, const preheat_tensor& tensor, const Place& where) {
  const int64_t rank = Count(buffer.sizes());
  if (tensor.rank == rank && (rank == 0 || (tensor.sizes != nullptr && tensor.strides != nullptr))) {
    return absl::OkStatus();
  }
  return Mismatch("shape_mismatch", where, absl::StrCat("expected ", rank, " dimensions, got ", tensor.rank),
                  "pass a tensor of that rank");
}

absl::Status CheckTensor(const Expected& expected, const preheat_tensor& tensor, int64_t alignment, const Place& where,
                         int32_t device_type) {
  const int32_t dtype = static_cast<int32_t>(expected.buffer.dtype());
  if (tensor.dtype != dtype) {
    return Mismatch("dtype_mismatch", where,
                    absl::StrCat("expected ", DTypeText(dtype), ", got ", DTypeText(tensor.dtype)),
                    "convert the tensor, or compile for this dtype");
  }
  RETURN_IF_ERROR(CheckRank(expected.buffer, tensor, where));
  bool empty = false;
  if (!SizesAgree(expected, tensor, &empty)) {
    return Mismatch("shape_mismatch", where,
                    absl::StrCat("expected sizes ", expected.Sizes(), ", got ", List(tensor.sizes, tensor.rank)),
                    "pass a tensor of that shape, or compile for this one");
  }
  if (tensor.device_type != device_type) {
    const bool host = device_type == PREHEAT_CPU;
    return Mismatch("layout_mismatch", where,
                    host ? "expected a tensor in the host's memory" : "expected a tensor in the GPU's memory",
                    host ? "copy the tensor to the CPU" : "copy the tensor to the GPU");
  }
  if (empty) return absl::OkStatus();
  if (!StridesAgree(expected, tensor)) {
    return Mismatch("layout_mismatch", where,
                    absl::StrCat("expected strides ", expected.Strides(), " for sizes ", expected.Sizes(), ", got ",
                                 List(tensor.strides, tensor.rank)),
                    "copy the tensor into those strides, or compile for this layout");
  }
  if (tensor.data == nullptr) return Mismatch("layout_mismatch", where, "the tensor has no memory", "pass its data");
  if (reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(alignment) != 0) {
    return Mismatch("layout_mismatch", where,
                    absl::StrCat("expected an address that is a multiple of ", alignment, " bytes"),
                    "copy the tensor (torch: clone), or compile with the input declared unaligned");
  }
  return absl::OkStatus();
}

Place Input(uint32_t number) { return {"input", number}; }

// The value that a symbol reads from its input's tensor.
absl::StatusOr<int64_t> SourceValue(const LoadedPlan& plan, const plan::SymbolDef& symbol,
                                    const preheat_tensor& tensor) {
  const uint32_t number = static_cast<uint32_t>(symbol.input());
  if (symbol.dim() >= 0) {
    RETURN_IF_ERROR(CheckRank(plan.input_buffer(number), tensor, Input(number)));
    return tensor.sizes[symbol.dim()];
  }
  if (tensor.rank != 1 || tensor.sizes == nullptr) {
    return Mismatch("shape_mismatch", Input(number), "the input is an integer",
                    "pass its value in sizes[0] of a tensor of rank 1 without data");
  }
  return tensor.sizes[0];
}

absl::Status CheckBounds(const plan::SymbolDef& symbol, int64_t value) {
  if (value >= symbol.min() && value <= symbol.max()) return absl::OkStatus();
  const std::string source = symbol.dim() < 0 ? std::string("its value") : absl::StrCat("dimension ", symbol.dim());
  const std::string most = symbol.max() == INT64_MAX ? "" : absl::StrCat(" to ", symbol.max());
  return MakeError(absl::StatusCode::kOutOfRange,
                   {.kind = "size_out_of_range",
                    .message = absl::StrCat(source, " (", Text(symbol.name()), ") is ", value, ", the plan takes ",
                                            symbol.min(), most.empty() ? " and more" : most),
                    .where = Input(static_cast<uint32_t>(symbol.input())).Text(),
                    .fix = "pass a size in that range, or compile for this one"});
}

}  // namespace

absl::Status CheckCount(size_t given, size_t wanted, absl::string_view what) {
  if (given == wanted) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "input_count",
                    .message = absl::StrCat("expected ", wanted, " ", what, ", got ", given),
                    .where = "",
                    .fix = absl::StrCat("pass ", wanted, " ", what)});
}

absl::Status BindSymbols(const LoadedPlan& plan, absl::Span<const uint32_t> numbers, const preheat_tensor* tensors,
                         int64_t* symbols) {
  const auto* defs = plan.plan->symbols();
  for (uint32_t s = 0; s < Count(defs); ++s) {
    const plan::SymbolDef& symbol = *defs->Get(s);
    if (symbol.input() < 0) continue;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] != static_cast<uint32_t>(symbol.input())) continue;
      ASSIGN_OR_RETURN(symbols[s], SourceValue(plan, symbol, tensors[i]));
      RETURN_IF_ERROR(CheckBounds(symbol, symbols[s]));
      break;
    }
  }
  return absl::OkStatus();
}

void InitSymbols(const LoadedPlan& plan, int64_t* symbols) {
  for (uint32_t s = 0; s < plan.num_symbols(); ++s) symbols[s] = plan.plan->symbols()->Get(s)->min();
}

absl::Status CheckGuards(const LoadedPlan& plan, const int64_t* values) {
  const auto* guards = plan.plan->guards();
  for (uint32_t i = 0; i < Count(guards); ++i) {
    const plan::Guard& guard = *guards->Get(i);
    if (plan.known[guard.size()] == Known::kAfterStep || values[guard.size()] >= 0) continue;
    return MakeError(absl::StatusCode::kOutOfRange, {.kind = "size_out_of_range",
                                                     .message = absl::StrCat("the plan needs ", Text(guard.text()),
                                                                             ", which these sizes do not fulfil"),
                                                     .where = "",
                                                     .fix = "compile for these sizes"});
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const LoadedPlan& plan, uint32_t number, const preheat_tensor& tensor, const int64_t* values,
                        int32_t device_type) {
  if (plan.size_symbol[number] >= 0) return absl::OkStatus();  // BindSymbols has read it
  const int64_t alignment = plan.plan->inputs()->Get(number)->alignment();
  return CheckTensor({plan.input_buffer(number), values}, tensor, alignment > 0 ? alignment : 1, Input(number),
                     device_type);
}

absl::Status CheckOutput(const LoadedPlan& plan, uint32_t number, const preheat_tensor& tensor, const int64_t* values,
                         int32_t device_type) {
  const plan::Buffer& buffer = plan.output_buffer(number);
  return CheckTensor({buffer, values}, tensor, std::min<int64_t>(8, ElementSize(buffer.dtype())), {"output", number},
                     device_type);
}

}  // namespace preheat::runtime
