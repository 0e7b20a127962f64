#ifndef PREHEAT_CLIENT_TORCH_EXTERN_HANDLER_H_
#define PREHEAT_CLIENT_TORCH_EXTERN_HANDLER_H_

#include "absl/status/status.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat {

// Makes the call by torch's dispatcher, in the caller's grad mode switched off, and copies the results to where the
// runtime wants them. Calls are prepared once for each text. Thread-safe.
// INVALID_ARGUMENT "malformed_call", "reference_failed" with torch's words; INTERNAL "result_mismatch" when a result
// is not of the type that the program declares.
absl::Status RunExternCall(const preheat_extern_call& call);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_TORCH_EXTERN_HANDLER_H_
