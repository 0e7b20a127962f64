#include "server/worker/compare_outputs.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace preheat::worker {
namespace {

using ir::DType;
using reference::HostTensor;

template <typename T>
double Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return static_cast<double>(value);
}

double LoadHalf(const char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan(""))
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

double LoadBrainFloat(const char* at) {
  uint16_t high;
  std::memcpy(&high, at, sizeof(high));
  uint32_t bits = static_cast<uint32_t>(high) << 16;
  return Load<float>(reinterpret_cast<const char*>(&bits));
}

double LoadReal(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8: return Load<uint8_t>(at);
    case DType::kI8: return Load<int8_t>(at);
    case DType::kI16: return Load<int16_t>(at);
    case DType::kI32: return Load<int32_t>(at);
    case DType::kI64: return Load<int64_t>(at);
    case DType::kF16: return LoadHalf(at);
    case DType::kBF16: return LoadBrainFloat(at);
    case DType::kF32:
    case DType::kC64: return Load<float>(at);
    case DType::kF64:
    case DType::kC128: return Load<double>(at);
  }
  return std::nan("");
}

// Elements in row-major order; a complex one is two numbers.
std::vector<double> Elements(const HostTensor& tensor) {
  const int parts = ir::IsComplex(tensor.dtype) ? 2 : 1;
  const int64_t part_bytes = ir::DTypeSize(tensor.dtype) / parts;
  int64_t count = reference::NumElements(tensor.sizes);
  std::vector<double> elements;
  elements.reserve(static_cast<size_t>(count * parts));
  std::vector<int64_t> at(tensor.sizes.size());
  for (int64_t n = 0, offset = 0; n < count; ++n) {
    for (int part = 0; part < parts; ++part) {
      elements.push_back(LoadReal(tensor.dtype, tensor.bytes.data() + (offset * parts + part) * part_bytes));
    }
    for (size_t i = at.size(); i-- > 0;) {
      offset += tensor.strides[i];
      if (++at[i] < tensor.sizes[i]) break;
      offset -= at[i] * tensor.strides[i];
      at[i] = 0;
    }
  }
  return elements;
}

bool SameSpecial(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

// Sums over the elements that are finite in the reference.
struct Sums {
  double error = 0, norm = 0, value = 0;
  void Add(double got, double want) {
    error += (got - want) * (got - want);
    norm += want * want;
    value += got * got;
  }
  double Relative() const { return norm > 0 ? std::sqrt(error / norm) : std::sqrt(value); }
};

double Slack(DType dtype) {
  if (dtype == DType::kF16) return 5e-4;
  if (dtype == DType::kBF16) return 4e-3;
  return 1e-6;
}

struct Judgement {
  Sums ours, eager;
  std::string wrong;  // empty: nothing
};

Judgement JudgeFloats(const std::vector<double>& got, const std::vector<double>& eager,
                      const std::vector<double>& want) {
  Judgement judgement;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i]) || !std::isfinite(eager[i])) {  // an overflow of the smaller type is eager's too
      if (!SameSpecial(got[i], want[i]) && !SameSpecial(got[i], eager[i]) && std::isnan(got[i])) {
        judgement.wrong = absl::StrCat("element ", i, " is NaN, the reference ", want[i]);
      }
      continue;
    }
    if (!std::isfinite(got[i])) {
      judgement.wrong = absl::StrCat("element ", i, " is ", got[i], ", the reference ", want[i]);
      continue;
    }
    judgement.ours.Add(got[i], want[i]);
    judgement.eager.Add(eager[i], want[i]);
  }
  return judgement;
}

Judgement JudgeIntegers(const std::vector<double>& got, const std::vector<double>& eager,
                        const std::vector<double>& want) {
  Judgement judgement;
  for (size_t i = 0; i < got.size() && judgement.wrong.empty(); ++i) {
    if (got[i] == eager[i] || got[i] == want[i]) continue;
    judgement.wrong = absl::StrCat("element ", i, " is ", got[i], ", eager's ", eager[i]);
  }
  return judgement;
}

Judgement Judge(const HostTensor& got, const HostTensor& eager, const HostTensor& want) {
  Judgement judgement;
  if (got.dtype != eager.dtype || got.sizes != eager.sizes || got.sizes != want.sizes) {
    judgement.wrong = "its type is not eager's";
    return judgement;
  }
  bool floats = ir::IsFloat(got.dtype) || ir::IsComplex(got.dtype);
  judgement = (floats ? JudgeFloats : JudgeIntegers)(Elements(got), Elements(eager), Elements(want));
  double error = judgement.ours.Relative(), limit = 2 * judgement.eager.Relative() + Slack(got.dtype);
  if (judgement.wrong.empty() && floats && !(error <= limit)) {
    judgement.wrong = absl::StrCat("its error is ", error, ", at most ", limit, " was expected");
  }
  return judgement;
}

}  // namespace

v1::Evidence CompareOutputs(const std::vector<HostTensor>& got, const std::vector<HostTensor>& eager,
                            const std::vector<HostTensor>& reference) {
  v1::Evidence evidence;
  evidence.set_state(v1::Evidence::OK);
  auto fail = [&](const std::string& reason) {
    if (evidence.state() == v1::Evidence::OK) evidence.set_reason(reason);
    evidence.set_state(v1::Evidence::FAILED);
  };
  if (got.size() != eager.size() || got.size() != reference.size()) fail("the number of outputs is not eager's");
  Sums ours, eagers;
  for (size_t i = 0; i < got.size() && i < eager.size() && i < reference.size(); ++i) {
    Judgement judgement = Judge(got[i], eager[i], reference[i]);
    if (!judgement.wrong.empty()) fail(absl::StrCat("output ", i, ": ", judgement.wrong));
    v1::OutputError& output = *evidence.add_outputs();
    output.set_rel_error(judgement.ours.Relative());
    output.set_eager_rel_error(judgement.eager.Relative());
    output.set_dtype(
        static_cast<v1::DType>(static_cast<int>(got[i].dtype) + 1));  // the wire's numbers, see program.proto
    for (int64_t size : got[i].sizes) output.add_shape(size);
    for (auto [sum, more] : {std::pair(&ours, &judgement.ours), std::pair(&eagers, &judgement.eager)}) {
      sum->error += more->error;
      sum->norm += more->norm;
      sum->value += more->value;
    }
  }
  evidence.set_rel_error(ours.Relative());
  evidence.set_eager_rel_error(eagers.Relative());
  return evidence;
}

}  // namespace preheat::worker
