#include "server/rpc/error_proto.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

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
