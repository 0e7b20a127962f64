#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_NO_CALL_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_NO_CALL_H_

#include "kernels/library/provider.h"

namespace preheat::library {

// A call whose results have no elements: nothing is done.
class NoCall : public PreparedCall {
 public:
  absl::string_view provider() const override { return "cudnn"; }
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const preheat_lib_addresses&) const override { return absl::OkStatus(); }
};

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_NO_CALL_H_
