#ifndef PREHEAT_COMPILER_SUPPORT_RETRY_AFTER_H_
#define PREHEAT_COMPILER_SUPPORT_RETRY_AFTER_H_

#include <chrono>
#include <optional>

#include "absl/status/status.h"

namespace preheat {

// A failure that ends by waiting says for how long, as part of the status. On the wire it is google.rpc.RetryInfo
// (proto/preheat/v1/rpc_status.proto). What is negative counts as 0, an hour is the most.
absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds wait);

// Nothing when the status does not say that asking again may help.
std::optional<std::chrono::milliseconds> GetRetryAfter(const absl::Status& status);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_RETRY_AFTER_H_
