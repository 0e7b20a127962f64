#ifndef PREHEAT_SERVER_RPC_ERROR_PROTO_H_
#define PREHEAT_SERVER_RPC_ERROR_PROTO_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::server {

// Errors cross the wire in one form: preheat.v1.Error, as the last event of a stream and in the gRPC status' details
// (rpc_status.proto says how), where RetryInfo stands beside it if the status has a GetRetryAfter. Codes of absl and
// gRPC are the same numbers.

v1::Error ToProto(const absl::Status& status);      // REQUIRES: !status.ok()
absl::Status FromProto(const v1::Error& error);     // an unknown code becomes UNKNOWN
grpc::Status ToGrpc(const absl::Status& status);    // OK for OK
absl::Status FromGrpc(const grpc::Status& status);  // with the details where there are any

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_RPC_ERROR_PROTO_H_
