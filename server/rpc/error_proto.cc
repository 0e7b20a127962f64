#include "server/rpc/error_proto.h"

#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"
#include "proto/preheat/v1/rpc_status.pb.h"

namespace preheat::server {
namespace {

constexpr char kErrorType[] = "type.googleapis.com/preheat.v1.Error";
constexpr char kRetryInfoType[] = "type.googleapis.com/google.rpc.RetryInfo";

void AddDetail(v1::RpcStatus& status, const char* type, const google::protobuf::Message& detail) {
  google::protobuf::Any& any = *status.add_details();
  any.set_type_url(type);
  any.set_value(detail.SerializeAsString());
}

std::string Details(const absl::Status& status, const v1::Error& error) {
  v1::RpcStatus details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(error.message());
  AddDetail(details, kErrorType, error);
  if (auto wait = GetRetryAfter(status)) {
    v1::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(wait->count() / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(wait->count() % 1000) * 1000000);
    AddDetail(details, kRetryInfoType, retry);
  }
  return details.SerializeAsString();
}

}  // namespace

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
  return MakeError(CodeFromName(error.code()),
                   {.kind = error.kind(), .message = error.message(), .where = error.where(), .fix = error.fix()});
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Error error = ToProto(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), error.message(), Details(status, error));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::RpcStatus details;
  v1::Error error;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      if (detail.type_url() == kErrorType && error.ParseFromString(detail.value())) return FromProto(error);
    }
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace preheat::server
