#include "server/rpc/error_proto.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"
#include "proto/preheat/v1/rpc_status.pb.h"

namespace preheat::server {
namespace {

TEST(ErrorProto, SurvivesBothWays) {
  for (int code = 1; code <= 16; ++code) {
    absl::Status status = MakeError(static_cast<absl::StatusCode>(code),
                                    {.kind = "some_kind", .message = "what", .where = "here", .fix = "so"});
    EXPECT_EQ(FromProto(ToProto(status)), status);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_TRUE(FromGrpc(ToGrpc(absl::OkStatus())).ok());
}

TEST(ErrorProto, SaysWhenToAskAgainAsEveryGrpcToolReadsIt) {
  absl::Status full =
      WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, {.kind = "queue_full", .message = "m"}),
                     std::chrono::milliseconds(1250));
  v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(ToGrpc(full).error_details()));
  EXPECT_EQ(details.code(), 8);
  ASSERT_EQ(details.details_size(), 2);
  EXPECT_EQ(details.details(1).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  v1::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(details.details(1).value()));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 250000000);
  ASSERT_TRUE(details.ParseFromString(ToGrpc(absl::InternalError("no")).error_details()));
  EXPECT_EQ(details.details_size(), 1) << "asking again would not help";
}

TEST(ErrorProto, TakesForeignErrors) {
  v1::Error odd;
  odd.set_code("NO_SUCH_CODE");
  EXPECT_EQ(FromProto(odd).code(), absl::StatusCode::kUnknown);
  absl::Status plain = FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused"));
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetError(plain).kind, "unavailable");
}

}  // namespace
}  // namespace preheat::server
