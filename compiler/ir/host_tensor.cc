#include "compiler/ir/host_tensor.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/scalar.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

template <typename T>
T Load(const std::string& data, int64_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(std::string& data, int64_t i, T value) {
  std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

int64_t HostElements(absl::Span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

std::vector<int64_t> HostStrides(absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

HostTensor HostTensor::Zeros(DType dtype, std::vector<int64_t> shape) {
  HostTensor t{dtype, std::move(shape), ""};
  t.data.assign(t.elements() * DTypeSize(dtype), '\0');
  return t;
}

int64_t HostTensor::elements() const { return HostElements(shape); }

double HostTensor::Float(int64_t i) const {
  switch (dtype) {
    case DType::kF16: return DecodeF16(Load<uint16_t>(data, i));
    case DType::kBF16: return DecodeBF16(Load<uint16_t>(data, i));
    case DType::kF32: return Load<float>(data, i);
    default: return Load<double>(data, i);
  }
}

void HostTensor::SetFloat(int64_t i, double value) {
  switch (dtype) {
    case DType::kF16: return Store(data, i, EncodeF16(value));
    case DType::kBF16: return Store(data, i, EncodeBF16(value));
    case DType::kF32: return Store(data, i, static_cast<float>(value));
    default: return Store(data, i, value);
  }
}

int64_t HostTensor::Int(int64_t i) const {
  switch (dtype) {
    case DType::kBool: return Load<uint8_t>(data, i) != 0;
    case DType::kU8: return Load<uint8_t>(data, i);
    case DType::kI8: return Load<int8_t>(data, i);
    case DType::kI16: return Load<int16_t>(data, i);
    case DType::kI32: return Load<int32_t>(data, i);
    default: return Load<int64_t>(data, i);
  }
}

void HostTensor::SetInt(int64_t i, int64_t value) {
  switch (DTypeSize(dtype)) {
    case 1: return Store(data, i, static_cast<uint8_t>(WrapTo(dtype, value)));
    case 2: return Store(data, i, static_cast<int16_t>(value));
    case 4: return Store(data, i, static_cast<int32_t>(value));
    default: return Store(data, i, value);
  }
}

void HostTensor::CopyElement(int64_t i, const HostTensor& from, int64_t j) {
  int64_t size = DTypeSize(dtype);
  std::memcpy(data.data() + i * size, from.data.data() + j * size, size);
}

absl::StatusOr<int64_t> ConcreteValue(const Expr& e, const SymbolValues& symbols) {
  if (auto constant = e.constant()) return *constant;
  for (const std::string& name : e.Symbols()) {
    if (symbols.count(name) == 0) return absl::InvalidArgumentError(absl::StrCat("the symbol ", name, " has no value"));
  }
  return e.Evaluate([&](const std::string& name) { return symbols.at(name); });
}

absl::StatusOr<std::vector<int64_t>> ConcreteShape(absl::Span<const Expr> shape, const SymbolValues& symbols) {
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (const Expr& e : shape) {
    ASSIGN_OR_RETURN(int64_t size, ConcreteValue(e, symbols));
    if (size < 0) return absl::InvalidArgumentError(absl::StrCat("the size ", e.ToString(), " is ", size));
    if (size > kMaxHostElements || (size > 0 && elements > kMaxHostElements / size)) {
      return absl::ResourceExhaustedError("a tensor is too large for the evaluator");
    }
    if (size > 0) elements *= size;
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace preheat::ir
