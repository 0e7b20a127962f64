#include "tests/eager_fuzz/random_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "compiler/reference/reference.h"
#include "compiler/support/status_macros.h"
#include "tests/eager_fuzz/value_pool.h"

namespace preheat::testing {

using ir::DType;
using ir::HostTensor;
using Kind = RandomProgram::Values::Kind;

namespace {

HostTensor ToDense(reference::HostTensor tensor) { return {tensor.dtype, tensor.sizes, std::move(tensor.bytes)}; }

reference::HostTensor ToReference(const HostTensor& tensor) {
  return {tensor.dtype, tensor.shape, reference::RowMajorStrides(tensor.shape), tensor.data};
}

void SetElement(HostTensor& tensor, int64_t i, Kind kind, int64_t bound, std::mt19937_64& random) {
  const uint64_t draw = random();
  if (tensor.dtype == DType::kBool) return tensor.SetInt(i, draw % 2);
  if (!ir::IsFloat(tensor.dtype)) {
    int64_t low = kind == Kind::kIndex || tensor.dtype == DType::kU8 ? 0 : -4;
    int64_t count = kind == Kind::kIndex ? bound : 12;
    return tensor.SetInt(i, low + static_cast<int64_t>(draw % static_cast<uint64_t>(count)));
  }
  constexpr double kSpecials[] = {std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN(),
                                  -0.0,
                                  0.0,
                                  1e-40};
  if (kind == Kind::kSpecial && draw % 5 == 0) return tensor.SetFloat(i, kSpecials[draw / 5 % 6]);
  if (kind == Kind::kReal) return tensor.SetFloat(i, static_cast<double>(draw >> 11) * 0x1p-51 - 2);
  tensor.SetFloat(i, (static_cast<double>(draw % 17) - 8) / 4);
}

void RepeatAlong(HostTensor& tensor, size_t dim) {
  HostTensor from = tensor;
  std::vector<int64_t> strides = ir::HostStrides(tensor.shape);
  ir::ForEachPosition(from.shape, [&](int64_t i, absl::Span<const int64_t> at) {
    tensor.CopyElement(i, from, i - at[dim] * strides[dim]);
  });
}

}  // namespace

double NumberAt(const HostTensor& tensor, int64_t i) {
  return ir::IsFloat(tensor.dtype) ? tensor.Float(i) : static_cast<double>(tensor.Int(i));
}

// Values of input `index`.
HostTensor Generate(const RandomProgram& program, size_t index, const ir::SymbolValues& symbols, uint64_t seed) {
  const RandomProgram::Values& values = program.values[index];
  const Shape& shape = program.program.values[program.program.inputs[index].value].type.tensor.shape;
  std::vector<int64_t> sizes = *ir::ConcreteShape(shape, symbols);
  HostTensor tensor = HostTensor::Zeros(values.dtype, sizes);
  int64_t bound = std::max<int64_t>(1, *ir::ConcreteValue(values.bound, symbols));
  std::mt19937_64 random(seed * 1000003 + index);
  for (int64_t i = 0; i < tensor.elements(); ++i) SetElement(tensor, i, values.kind, bound, random);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (values.repeated[d]) RepeatAlong(tensor, d);
  }
  return tensor;
}

double ErrorAt(const HostTensor& got, const HostTensor& wide, int64_t i) {
  double a = NumberAt(got, i), b = NumberAt(wide, i);
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  double error = std::abs(a - b);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

absl::StatusOr<std::vector<HostTensor>> RunEager(const capture::AtenProgram& program,
                                                 const std::vector<HostTensor>& inputs, const ir::SymbolValues& symbols,
                                                 bool float64) {
  std::vector<reference::HostTensor> given;
  for (const HostTensor& input : inputs) given.push_back(ToReference(input));
  reference::ReferenceOptions options;
  options.float64 = float64;
  options.symbols = symbols;
  ASSIGN_OR_RETURN(std::vector<reference::HostTensor> results, reference::RunReference(program, given, options));
  std::vector<HostTensor> out;
  for (reference::HostTensor& result : results) out.push_back(ToDense(std::move(result)));
  return out;
}

absl::StatusOr<RandomProgram> MakeRandomProgram(uint64_t seed, int size) {
  ValuePool pool(seed);
  for (int tries = 0, made = 0; made < size && tries < 6 * size; ++tries) {
    std::optional<Call> call = ProposeCall(pool);
    if (!call) continue;
    ASSIGN_OR_RETURN(bool taken, pool.Try(*call));
    made += taken;
  }
  return pool.Finish();
}

std::vector<HostTensor> InputsFor(const RandomProgram& program, const ir::SymbolValues& symbols, uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < program.values.size(); ++i) inputs.push_back(Generate(program, i, symbols, seed));
  return inputs;
}

}  // namespace preheat::testing
