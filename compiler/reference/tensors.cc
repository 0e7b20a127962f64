#include "compiler/reference/tensors.h"

#include <ATen/ScalarOps.h>

#include <cstring>
#include <vector>

namespace preheat::reference {

c10::ScalarType ToTorch(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBool: return c10::ScalarType::Bool;
    case ir::DType::kU8: return c10::ScalarType::Byte;
    case ir::DType::kI8: return c10::ScalarType::Char;
    case ir::DType::kI16: return c10::ScalarType::Short;
    case ir::DType::kI32: return c10::ScalarType::Int;
    case ir::DType::kI64: return c10::ScalarType::Long;
    case ir::DType::kF16: return c10::ScalarType::Half;
    case ir::DType::kBF16: return c10::ScalarType::BFloat16;
    case ir::DType::kF32: return c10::ScalarType::Float;
    case ir::DType::kF64: return c10::ScalarType::Double;
    case ir::DType::kC64: return c10::ScalarType::ComplexFloat;
    case ir::DType::kC128: return c10::ScalarType::ComplexDouble;
  }
  return c10::ScalarType::Undefined;
}

std::optional<ir::DType> FromTorch(c10::ScalarType type) {
  for (uint8_t i = 0; i <= static_cast<uint8_t>(ir::DType::kC128); ++i) {
    if (ToTorch(static_cast<ir::DType>(i)) == type) return static_cast<ir::DType>(i);
  }
  return std::nullopt;
}

c10::ScalarType Widened(c10::ScalarType type) {
  if (c10::isComplexType(type)) return c10::ScalarType::ComplexDouble;
  return c10::isFloatingType(type) ? c10::ScalarType::Double : type;
}

at::Tensor TensorFromHost(const HostTensor& tensor) {
  at::Tensor copy = at::empty_strided(tensor.sizes, tensor.strides, at::TensorOptions().dtype(ToTorch(tensor.dtype)));
  if (!tensor.bytes.empty()) std::memcpy(copy.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
  return copy;
}

HostTensor TensorToHost(const at::Tensor& tensor) {
  at::Tensor dense = tensor.resolve_conj().resolve_neg().contiguous();
  HostTensor out = MakeTensor(*FromTorch(dense.scalar_type()), dense.sizes().vec());
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), dense.data_ptr(), out.bytes.size());
  return out;
}

at::Tensor WrappedNumber(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace preheat::reference
