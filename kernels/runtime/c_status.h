#ifndef PREHEAT_KERNELS_RUNTIME_C_STATUS_H_
#define PREHEAT_KERNELS_RUNTIME_C_STATUS_H_

#include "absl/status/status.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::runtime {

// Between absl::Status and the C ABI's status. Null stands for OK in both directions.
preheat_status* ToC(const absl::Status& status);
// Frees what it is given.
absl::Status FromC(preheat_status* status);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_C_STATUS_H_
