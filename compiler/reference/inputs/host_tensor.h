#ifndef PREHEAT_COMPILER_REFERENCE_INPUTS_HOST_TENSOR_H_
#define PREHEAT_COMPILER_REFERENCE_INPUTS_HOST_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/dtype.h"

namespace preheat::reference {

// A tensor with memory of its own, on the host. A size input is a 0-d i64.
struct HostTensor {
  ir::DType dtype = ir::DType::kF32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements, one a size, none negative
  std::string bytes;             // from the first element to the last one that the strides reach; little endian
};

// A dense row-major tensor of zeros.
HostTensor MakeTensor(ir::DType dtype, std::vector<int64_t> sizes);
// The same with strides of one's own.
HostTensor MakeStrided(ir::DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides);

// Gives `to` the elements of `from`, each with its own strides. Same dtype and sizes.
void CopyElements(const HostTensor& from, HostTensor& to);

int64_t NumElements(absl::Span<const int64_t> sizes);
std::vector<int64_t> RowMajorStrides(absl::Span<const int64_t> sizes);
// Elements from the first to the last that the strides reach, both counted; 0 without elements.
int64_t Extent(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides);

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_INPUTS_HOST_TENSOR_H_
