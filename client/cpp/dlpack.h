#ifndef PREHEAT_CLIENT_CPP_DLPACK_H_
#define PREHEAT_CLIENT_CPP_DLPACK_H_

#include <dlpack/dlpack.h>

#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat {

// DLPack's tensors as the runtime's. Borrows sizes and memory; owns only the strides that a dense tensor leaves out.
class RuntimeTensors {
 public:
  // INVALID_ARGUMENT "unsupported_dtype", "unsupported_device", with the tensor's number as `where`.
  static absl::StatusOr<RuntimeTensors> From(absl::Span<const DLTensor> tensors);

  absl::Span<const preheat_tensor> tensors() const { return tensors_; }

 private:
  std::vector<preheat_tensor> tensors_;
  std::deque<std::vector<int64_t>> strides_;  // a deque: elements stay where they are
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_DLPACK_H_
