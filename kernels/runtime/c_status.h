#ifndef PREHEAT_KERNELS_RUNTIME_C_STATUS_H_
#define PREHEAT_KERNELS_RUNTIME_C_STATUS_H_

#include "absl/status/status.h"
#include "compiler/support/error.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::runtime {

// Between absl::Status and the C ABI's status. Null stands for OK in both directions.
preheat_status* ToC(const absl::Status& status);

// Frees what it is given. By the ABI's own functions, for those too who link nothing but it.
inline absl::Status FromC(preheat_status* status) {
  if (status == nullptr) return absl::OkStatus();
  const absl::StatusCode code = CodeFromName(preheat_status_code(status));  // a stranger may have written "OK"
  absl::Status result = MakeError(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                                  {.kind = preheat_status_kind(status),
                                   .message = preheat_status_message(status),
                                   .where = preheat_status_where(status),
                                   .fix = preheat_status_fix(status)});
  preheat_status_free(status);
  return result;
}

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_C_STATUS_H_
