#include "compiler/reference/inputs/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/scalar.h"
#include "compiler/reference/inputs/input_roles.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::reference {
namespace {

using capture::AtenProgram;
using capture::AtenValue;
using ir::DType;

absl::Status Invalid(const std::string& kind, const std::string& message, int input) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = kind, .message = message, .where = absl::StrCat("input ", input)});
}

// One step of splitmix64: a bijection that scatters its argument's bits.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Random numbers that depend on (seed, stream, position) alone.
class Counter {
 public:
  Counter(uint64_t seed, uint64_t stream) : key_(Mix(Mix(seed) ^ stream)) {}
  uint64_t Bits(uint64_t position) const { return Mix(key_ ^ Mix(position)); }
  double Uniform(uint64_t position) const { return static_cast<double>(Bits(position) >> 11) * 0x1p-53; }
  // Twelve 16-bit uniforms: mean 6 and variance 1 once scaled, summed as integers.
  double Normal(uint64_t position) const {
    int64_t sum = 0;
    for (uint64_t k = 0; k < 3; ++k) {
      const uint64_t bits = Bits(3 * position + k);
      for (int shift = 0; shift < 64; shift += 16) sum += (bits >> shift) & 0xffff;
    }
    return static_cast<double>(sum) * 0x1p-16 - (6.0 - 6 * 0x1p-16);
  }

 private:
  uint64_t key_;
};

template <typename T>
void Put(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

void PutFloat(DType dtype, double value, char* at) {
  switch (dtype) {
    case DType::kF16: return Put(at, ir::EncodeF16(value));
    case DType::kBF16: return Put(at, ir::EncodeBF16(value));
    case DType::kF32: return Put(at, static_cast<float>(value));
    default: return Put(at, value);
  }
}

void PutInteger(DType dtype, int64_t value, char* at) {
  std::memcpy(at, &value, ir::DTypeSize(dtype));  // little endian: the low bytes come first
}

double FanIn(const HostTensor& t) {
  if (t.sizes.empty()) return 1;
  int64_t count = t.sizes.size() == 1 ? t.sizes[0] : 1;
  for (size_t i = 1; i < t.sizes.size(); ++i) count *= t.sizes[i];
  return static_cast<double>(std::max<int64_t>(count, 1));
}

// Writes the element at row-major position `n` to `at`.
using ElementFn = std::function<void(uint64_t n, char* at)>;

ElementFn Elements(const HostTensor& t, ir::InputKind kind, const InputRole& role, const Counter& counter) {
  const DType dtype = t.dtype;
  if (dtype == DType::kBool) return [=](uint64_t n, char* at) { *at = static_cast<char>(counter.Bits(n) & 1); };
  if (ir::IsInteger(dtype)) {
    const uint64_t bound = std::clamp<int64_t>(
        role.bound.value_or(2), 1, dtype == DType::kI8 || dtype == DType::kU8 ? 127 : 32767 * int64_t{65536});
    return [=](uint64_t n, char* at) { PutInteger(dtype, counter.Bits(n) % bound, at); };
  }
  if (ir::IsComplex(dtype)) {
    const DType part = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    return [=](uint64_t n, char* at) {
      PutFloat(part, counter.Normal(2 * n), at);
      PutFloat(part, counter.Normal(2 * n + 1), at + ir::DTypeSize(part));
    };
  }
  if (role.variance) return [=](uint64_t n, char* at) { PutFloat(dtype, 0.5 + counter.Uniform(n), at); };
  if (kind == ir::InputKind::kParameter) {
    const double limit = 1 / std::sqrt(FanIn(t));
    return [=](uint64_t n, char* at) { PutFloat(dtype, (2 * counter.Uniform(n) - 1) * limit, at); };
  }
  return [=](uint64_t n, char* at) { PutFloat(dtype, counter.Normal(n), at); };
}

constexpr int64_t kWorthAThread = 1 << 22;  // elements: a tenth of a second

// Visits the elements from `begin` to `end` in row-major order with their offsets in memory.
void FillPart(HostTensor& t, const ElementFn& put, int64_t begin, int64_t end) {
  const int64_t size = ir::DTypeSize(t.dtype);
  std::vector<int64_t> index(t.sizes.size(), 0);
  int64_t offset = 0, rest = begin;
  for (size_t d = index.size(); d-- > 0; rest /= t.sizes[d]) {
    index[d] = rest % t.sizes[d];
    offset += index[d] * t.strides[d];
  }
  for (int64_t n = begin; n < end; ++n) {
    put(n, t.bytes.data() + offset * size);
    for (size_t d = index.size(); d-- > 0;) {
      offset += t.strides[d];
      if (++index[d] < t.sizes[d]) break;
      offset -= t.strides[d] * t.sizes[d];
      index[d] = 0;
    }
  }
}

bool IsRowMajor(const HostTensor& t) {
  int64_t stride = 1;
  for (size_t d = t.sizes.size(); d-- > 0; stride *= t.sizes[d]) {
    if (t.strides[d] != stride) return false;
  }
  return true;
}

// Large tensors by several threads, each of which has elements of its own: 2^28 numbers take eight seconds. Others may
// have elements that lie in the same place.
void Fill(HostTensor& t, const ElementFn& put) {
  const int64_t count = NumElements(t.sizes);
  const int64_t most = IsRowMajor(t) ? static_cast<int64_t>(std::thread::hardware_concurrency()) : 1;
  const int64_t threads = std::clamp<int64_t>(count / kWorthAThread, 1, std::max<int64_t>(1, most));
  std::vector<std::thread> pool;
  for (int64_t k = 1; k < threads; ++k)
    pool.emplace_back([&, k] { FillPart(t, put, count * k / threads, count * (k + 1) / threads); });
  FillPart(t, put, 0, count / threads);
  for (std::thread& thread : pool) thread.join();
}

std::vector<int64_t> Evaluate(const std::vector<ir::Expr>& exprs, const std::map<std::string, int64_t>& symbols) {
  std::vector<int64_t> out;
  for (const ir::Expr& e : exprs) out.push_back(e.Evaluate([&](const std::string& s) { return symbols.at(s); }));
  return out;
}

absl::Status CheckBound(const AtenValue& value, const std::map<std::string, int64_t>& symbols, int input) {
  std::set<std::string> used = value.expr.Symbols();
  for (const auto* exprs : {&value.type.tensor.shape, &value.type.strides}) {
    for (const ir::Expr& e : *exprs) used.merge(e.Symbols());
  }
  for (const std::string& name : used) {
    if (symbols.count(name) == 0) return Invalid("unbound_symbol", absl::StrCat("size ", name, " has no value"), input);
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> EmptyInput(const AtenValue& value, const InputOptions& options, int input, int64_t& budget) {
  const std::map<std::string, int64_t>& symbols = options.symbols;
  RETURN_IF_ERROR(CheckBound(value, symbols, input));
  std::vector<int64_t> sizes = Evaluate(value.type.tensor.shape, symbols);
  std::vector<int64_t> strides = Evaluate(value.type.strides, symbols);
  if (sizes.size() != strides.size()) return Invalid("malformed_program", "sizes and strides differ in number", input);
  double elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || strides[i] < 0) return Invalid("negative_size", "a size or stride is negative", input);
    elements += static_cast<double>(std::max<int64_t>(sizes[i] - 1, 0)) * strides[i];
  }
  if (elements * ir::DTypeSize(value.type.tensor.dtype) > budget) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.kind = "inputs_too_large",
                      .message = absl::StrCat("the inputs together exceed ", options.max_bytes >> 20, " MiB"),
                      .where = absl::StrCat("input ", input),
                      .fix = "choose smaller dimensions, or give the server's "
                             "workers more memory (worker_memory_bytes)"});
  }
  budget -= static_cast<int64_t>(elements) * ir::DTypeSize(value.type.tensor.dtype);
  return MakeStrided(value.type.tensor.dtype, std::move(sizes), std::move(strides));
}

HostTensor SizeTensor(int64_t value) {
  HostTensor tensor = MakeTensor(DType::kI64, {});
  PutInteger(DType::kI64, value, tensor.bytes.data());
  return tensor;
}

absl::Status CheckGiven(const HostTensor& given, const HostTensor& wanted, int input) {
  if (given.dtype == wanted.dtype && given.sizes == wanted.sizes) return absl::OkStatus();
  return Invalid("shape_mismatch", "the given tensor has not the dtype and sizes of the program's input", input);
}

// What the given inputs say of sizes that are a symbol alone.
void BindGiven(const AtenProgram& program, const std::map<int, HostTensor>& given,
               std::map<std::string, int64_t>& symbols) {
  for (const auto& [index, tensor] : given) {
    if (index < 0 || index >= static_cast<int>(program.inputs.size())) continue;
    const std::vector<ir::Expr>& shape = program.values[program.inputs[index].value].type.tensor.shape;
    for (size_t d = 0; d < shape.size() && d < tensor.sizes.size(); ++d) {
      if (auto name = shape[d].symbol()) symbols.emplace(*name, tensor.sizes[d]);
    }
  }
}

bool GuardsHold(const AtenProgram& program, const std::map<std::string, int64_t>& symbols) {
  return std::all_of(program.guards.begin(), program.guards.end(), [&](const ir::Expr& guard) {
    const std::set<std::string> used = guard.Symbols();
    if (std::any_of(used.begin(), used.end(), [&](const std::string& s) { return symbols.count(s) == 0; })) return true;
    return guard.Evaluate([&](const std::string& s) { return symbols.at(s); }) >= 0;
  });
}

// Values worth trying for a symbol, the most welcome first.
std::vector<int64_t> Candidates(const ir::Symbol& symbol) {
  std::vector<int64_t> out;
  for (int64_t v : {8, 16, 32, 4, 64, 2, 12, 128, 256, 7, 9, 3, 5, 1}) {
    if (v >= symbol.min && v <= symbol.max.value_or(v)) out.push_back(v);
  }
  out.push_back(std::max<int64_t>(symbol.min, 0));
  if (symbol.max) out.push_back(*symbol.max);
  return out;
}

// Depth first; `steps` bounds the search, since a guard may be met by no candidate at all.
bool Search(const AtenProgram& program, size_t next, std::map<std::string, int64_t>& symbols, int& steps) {
  while (next < program.symbols.size() && symbols.count(program.symbols[next].name) != 0) ++next;
  if (next == program.symbols.size()) return GuardsHold(program, symbols);
  for (int64_t value : Candidates(program.symbols[next])) {
    if (--steps < 0) return false;
    symbols[program.symbols[next].name] = value;
    if (GuardsHold(program, symbols) && Search(program, next + 1, symbols, steps)) return true;
    symbols.erase(program.symbols[next].name);
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> GenerateInputs(const AtenProgram& program, const InputOptions& options) {
  auto symbol = [&](const std::string& name) {
    auto found = options.symbols.find(name);
    return found == options.symbols.end() ? int64_t{1} : found->second;
  };
  const std::vector<InputRole> roles = FindInputRoles(program, symbol);
  std::vector<HostTensor> out;
  int64_t budget = options.max_bytes;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const AtenValue& value = program.values[program.inputs[i].value];
    if (value.is_size) {
      RETURN_IF_ERROR(CheckBound(value, options.symbols, i));
      out.push_back(SizeTensor(value.expr.Evaluate(symbol)));
      continue;
    }
    ASSIGN_OR_RETURN(HostTensor tensor, EmptyInput(value, options, i, budget));
    if (auto given = options.given.find(i); given != options.given.end()) {
      RETURN_IF_ERROR(CheckGiven(given->second, tensor, i));
      CopyElements(given->second, tensor);
    } else {
      Fill(tensor, Elements(tensor, program.inputs[i].kind, roles[i], Counter(options.seed, i)));
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

absl::StatusOr<std::map<std::string, int64_t>> CompleteSymbols(const AtenProgram& program,
                                                               const std::map<std::string, int64_t>& symbols,
                                                               const std::map<int, HostTensor>& given) {
  std::map<std::string, int64_t> out = symbols;
  BindGiven(program, given, out);
  int steps = 100000;
  if (Search(program, 0, out, steps)) return out;
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "no_sizes_found",
                    .message = "no small sizes were found that meet the program's conditions",
                    .fix = "give the dimensions yourself (--dim)"});
}

}  // namespace preheat::reference
