#ifndef PREHEAT_CLIENT_CPP_RPC_STATUS_H_
#define PREHEAT_CLIENT_CPP_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// The status that a wire error stands for, with kind, where and fix as the server wrote them.
absl::Status FromWire(const v1::Error& error);

// OK for OK. The server's own Error when the call's details carry one, with how long to wait before asking again
// (GetRetryAfter); otherwise gRPC's code and text, where kind "unreachable" means that no server answered, "deadline"
// that none answered in time and "request_too_large" that gRPC itself refused the message.
absl::Status FromGrpc(const grpc::Status& status, const std::string& server);

// The call that failed, by the id under which the server's log has it. Empty for what never reached a server.
absl::Status WithRequestId(absl::Status status, absl::string_view id);
std::string RequestIdOf(const absl::Status& status);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_RPC_STATUS_H_
