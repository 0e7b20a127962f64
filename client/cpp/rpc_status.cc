#include "client/cpp/rpc_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

constexpr char kRequestId[] = "preheat/request_id";

}  // namespace

absl::Status FromWire(const v1::Error& error) {
  return MakeError(CodeFromName(error.code()),
                   {.kind = error.kind(), .message = error.message(), .where = error.where(), .fix = error.fix()});
}

absl::Status FromGrpc(const grpc::Status& status, const std::string& server) {
  if (status.ok()) return absl::OkStatus();
  if (v1::Error error;
      !status.error_details().empty() && error.ParseFromString(status.error_details()) && !error.code().empty()) {
    return FromWire(error);
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable) {
    return MakeError(code,
                     {.kind = "unreachable",
                      .message = absl::StrCat("no preheatd answers at ", server, ": ", status.error_message()),
                      .where = server,
                      .fix = "start one with `compilectl server start`, or name one with --server or PREHEAT_SERVER"});
  }
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return MakeError(code, {.kind = "deadline",
                            .message = absl::StrCat(server, " did not answer in time"),
                            .where = server,
                            .fix = "ask again (a compile that was begun goes on), or raise the deadline"});
  }
  return MakeError(code, {.kind = "", .message = status.error_message(), .where = server, .fix = ""});
}

absl::Status WithRequestId(absl::Status status, absl::string_view id) {
  if (!status.ok()) status.SetPayload(kRequestId, absl::Cord(id));
  return status;
}

std::string RequestIdOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRequestId);
  return payload ? std::string(*payload) : std::string();
}

}  // namespace preheat
