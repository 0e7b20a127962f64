#include "compiler/reference/inputs/host_tensor.h"

#include <cstring>
#include <utility>

namespace preheat::reference {

int64_t NumElements(absl::Span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

std::vector<int64_t> RowMajorStrides(absl::Span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 0 ? sizes[i] : 1;
  }
  return strides;
}

int64_t Extent(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

HostTensor MakeStrided(ir::DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  HostTensor tensor{dtype, std::move(sizes), std::move(strides), {}};
  tensor.bytes.resize(Extent(tensor.sizes, tensor.strides) * ir::DTypeSize(dtype));
  return tensor;
}

HostTensor MakeTensor(ir::DType dtype, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = RowMajorStrides(sizes);
  return MakeStrided(dtype, std::move(sizes), std::move(strides));
}

void CopyElements(const HostTensor& from, HostTensor& to) {
  if (from.strides == to.strides) {
    to.bytes = from.bytes;
    return;
  }
  const int64_t element = ir::DTypeSize(from.dtype), count = NumElements(from.sizes);
  std::vector<int64_t> index(from.sizes.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0, target = 0;
    for (size_t d = 0; d < index.size(); ++d) source += index[d] * from.strides[d], target += index[d] * to.strides[d];
    std::memcpy(to.bytes.data() + target * element, from.bytes.data() + source * element, element);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == from.sizes[d];) index[d] = 0;
  }
}

}  // namespace preheat::reference
