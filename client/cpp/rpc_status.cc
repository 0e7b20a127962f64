#include "client/cpp/rpc_status.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"
#include "proto/preheat/v1/rpc_status.pb.h"

namespace preheat {
namespace {

constexpr char kRequestId[] = "preheat/request_id";

// What the server wrote into the details: its error, and how long to wait before asking again.
std::optional<absl::Status> FromDetails(const std::string& bytes) {
  v1::RpcStatus details;
  if (bytes.empty() || !details.ParseFromString(bytes)) return std::nullopt;
  v1::Error error;
  std::optional<std::chrono::milliseconds> wait;
  for (const google::protobuf::Any& detail : details.details()) {
    v1::RetryInfo retry;
    if (absl::EndsWith(detail.type_url(), "/preheat.v1.Error") && !error.ParseFromString(detail.value())) return {};
    if (absl::EndsWith(detail.type_url(), "/google.rpc.RetryInfo") && retry.ParseFromString(detail.value())) {
      wait = std::chrono::seconds(retry.retry_delay().seconds()) +
             std::chrono::milliseconds(retry.retry_delay().nanos() / 1000000);
    }
  }
  if (error.code().empty()) return std::nullopt;
  absl::Status status = FromWire(error);
  return wait ? WithRetryAfter(std::move(status), *wait) : status;
}

absl::Status TooLarge(const grpc::Status& status, const std::string& server) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.kind = "request_too_large",
                    .message = absl::StrCat("the request is larger than messages may be: ", status.error_message()),
                    .where = server,
                    .fix = "raise max_request_bytes of the server; weights never travel, so look for large constants"});
}

}  // namespace

absl::Status FromWire(const v1::Error& error) {
  return MakeError(CodeFromName(error.code()),
                   {.kind = error.kind(), .message = error.message(), .where = error.where(), .fix = error.fix()});
}

absl::Status FromGrpc(const grpc::Status& status, const std::string& server) {
  if (status.ok()) return absl::OkStatus();
  if (std::optional<absl::Status> typed = FromDetails(status.error_details())) return *typed;
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
  // gRPC's own limit refuses a message before the server's code sees it.
  if (code == absl::StatusCode::kResourceExhausted && absl::StrContains(status.error_message(), "larger than max"))
    return TooLarge(status, server);
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
