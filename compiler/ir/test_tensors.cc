#include "compiler/ir/test_tensors.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace preheat::ir {
namespace {

double SpecialOr(std::mt19937& rng, double value) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (rng() % 24) {
    case 0: return std::numeric_limits<double>::quiet_NaN();
    case 1: return kInf;
    case 2: return -kInf;
    case 3: return 0.0;
    case 4: return -0.0;
    default: return value;
  }
}

bool Close(double got, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  if (tolerance == 0 && std::signbit(got) != std::signbit(expected)) return false;
  return std::fabs(got - expected) <= tolerance * (1 + std::fabs(expected));
}

std::string TypeText(const HostTensor& t) {
  return absl::StrCat(DTypeName(t.dtype), "[", absl::StrJoin(t.shape, ", "), "]");
}

}  // namespace

HostTensor RandomTensor(std::mt19937& rng, DType dtype, std::vector<int64_t> shape, bool special) {
  HostTensor t = HostTensor::Zeros(dtype, std::move(shape));
  std::normal_distribution<double> normal;
  if (IsComplex(dtype)) {  // as a tensor of twice as many floats
    HostTensor floats =
        RandomTensor(rng, dtype == DType::kC64 ? DType::kF32 : DType::kF64, {2 * t.elements()}, special);
    t.data = std::move(floats.data);
    return t;
  }
  for (int64_t i = 0, n = t.elements(); i < n; ++i) {
    if (IsFloat(dtype)) {
      double value = normal(rng);
      t.SetFloat(i, special ? SpecialOr(rng, value) : value);
    } else {
      int64_t value = static_cast<int64_t>(rng() % 9) - 4;
      t.SetInt(i, dtype == DType::kBool ? static_cast<int64_t>(rng() % 2) : value);
    }
  }
  return t;
}

std::vector<HostTensor> RandomInputs(const Graph& graph, const SymbolValues& symbols, unsigned seed, bool special) {
  std::mt19937 rng(seed);
  std::vector<HostTensor> inputs;
  for (const GraphInput& input : graph.inputs()) {
    inputs.push_back(RandomTensor(rng, input.type.dtype, ConcreteShape(input.type.shape, symbols).value(), special));
    if (input.is_size) inputs.back().SetInt(0, symbols.at(input.symbol));
  }
  return inputs;
}

std::string Difference(const HostTensor& got, const HostTensor& expected, double tolerance) {
  if (got.dtype != expected.dtype || got.shape != expected.shape) {
    return absl::StrCat("got ", TypeText(got), ", expected ", TypeText(expected));
  }
  if (IsComplex(got.dtype)) return got.data == expected.data ? "" : "complex elements differ";
  for (int64_t i = 0, n = got.elements(); i < n; ++i) {
    bool same = IsFloat(got.dtype) ? Close(got.Float(i), expected.Float(i), tolerance) : got.Int(i) == expected.Int(i);
    if (same) continue;
    return IsFloat(got.dtype) ? absl::StrCat("element ", i, ": got ", got.Float(i), ", expected ", expected.Float(i))
                              : absl::StrCat("element ", i, ": got ", got.Int(i), ", expected ", expected.Int(i));
  }
  return "";
}

}  // namespace preheat::ir
