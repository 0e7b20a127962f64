#ifndef PREHEAT_COMPILER_SUPPORT_ERROR_H_
#define PREHEAT_COMPILER_SUPPORT_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace preheat {

// What a user is told when something fails. Travels as payload of an absl::Status, so every layer may
// pass it on, and is turned into the wire's Error once, at the RPC edge.
struct Error {
  std::string kind;        // stable and typed: "unknown_dimension", "unsupported_target"; docs: server/ERRORS.md
  std::string message;     // what is wrong
  std::string where = {};  // "buckets.yaml:12:7", "node 17 (aten.add.Tensor)"; may be empty
  std::string fix = {};    // what to do about it; may be empty
};

// A status of that code whose message is `error.message` and which carries the rest.
absl::Status MakeError(absl::StatusCode code, Error error);

// The error a status carries. One without payload gets its code's name in lower case as kind.
Error GetError(const absl::Status& status);

// The same status with `where` filled in if it was empty.
absl::Status WithWhere(absl::Status status, absl::string_view where);

// "InvalidArgument" -> "INVALID_ARGUMENT", as gRPC and our JSON write codes.
std::string CodeName(absl::StatusCode code);
// The reverse; kUnknown for any other text.
absl::StatusCode CodeFromName(absl::string_view name);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_ERROR_H_
