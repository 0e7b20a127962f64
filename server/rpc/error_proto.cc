#include "server/rpc/error_proto.h"

#include "compiler/support/error.h"

namespace preheat::server {

v1::Error ToProto(const absl::Status& status) {
  Error error = GetError(status);
  v1::Error proto;
  proto.set_code(CodeName(status.code()));
  proto.set_kind(error.kind);
  proto.set_message(error.message);
  proto.set_where(error.where);
  proto.set_fix(error.fix);
  return proto;
}

absl::Status FromProto(const v1::Error& error) {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  for (int i = 1; i <= 16; ++i) {
    if (CodeName(static_cast<absl::StatusCode>(i)) == error.code()) code = static_cast<absl::StatusCode>(i);
  }
  return MakeError(code,
                   {.kind = error.kind(), .message = error.message(), .where = error.where(), .fix = error.fix()});
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Error error = ToProto(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), error.message(), error.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Error error;
  if (!status.error_details().empty() && error.ParseFromString(status.error_details())) return FromProto(error);
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace preheat::server
