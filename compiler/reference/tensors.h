#ifndef PREHEAT_COMPILER_REFERENCE_TENSORS_H_
#define PREHEAT_COMPILER_REFERENCE_TENSORS_H_

#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "compiler/ir/dtype.h"
#include "compiler/reference/inputs/host_tensor.h"

namespace preheat::reference {

c10::ScalarType ToTorch(ir::DType dtype);
std::optional<ir::DType> FromTorch(c10::ScalarType type);  // null: a type that Preheat does not have

// What a type becomes in the float64 reference: floats f64, complex c128, others themselves.
c10::ScalarType Widened(c10::ScalarType type);

// A copy in torch's memory; sizes and strides kept.
at::Tensor TensorFromHost(const HostTensor& tensor);
// A dense row-major copy, views and lazy conjugation resolved. REQUIRES: a strided CPU tensor of a known type.
HostTensor TensorToHost(const at::Tensor& tensor);

// A 0-d tensor that follows type promotion as a Python number does.
at::Tensor WrappedNumber(const c10::Scalar& number);

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_TENSORS_H_
