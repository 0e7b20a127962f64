#include "server/rpc_router.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "proto/preheat/v1/cache.grpc.pb.h"
#include "proto/preheat/v1/compile.grpc.pb.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

// A server with nothing but a router, and stubs that do not know it.
class RouterTest : public testing::Test {
 protected:
  void Start(RouterOptions options) {
    router_ = std::make_unique<RpcRouter>(std::move(options));
    router_->Unary<v1::StatsRequest, v1::StatsReply>("/preheat.v1.Compiler/Stats", /*blocking=*/false,
                                                     [](Call&, const v1::StatsRequest&, v1::StatsReply& reply) {
                                                       reply.set_entries(7);
                                                       return absl::OkStatus();
                                                     });
    router_->Unary<v1::CompileRequest, v1::WhyMissReply>(
        "/preheat.v1.Compiler/WhyMiss", /*blocking=*/true,
        [this](Call& call, const v1::CompileRequest& request, v1::WhyMissReply&) {
          ++running_;
          while (!call.cancelled() && !release_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          --running_;
          return MakeError(absl::StatusCode::kNotFound,
                           {.kind = "some_kind", .message = request.name(), .where = call.request_id()});
        });
    router_->Stream<v1::ReadBlobRequest>("/preheat.v1.Cache/ReadBlob", /*blocking=*/false,
                                         [](std::shared_ptr<Call> call, v1::ReadBlobRequest request) {
                                           v1::BlobChunk chunk;
                                           for (int64_t i = 0; i < request.offset(); ++i) {
                                             chunk.set_data(std::to_string(i));
                                             call->Send(chunk);
                                           }
                                           call->Finish(absl::OkStatus());
                                         });
    router_->Unary<v1::RemoveRequest, v1::RemoveReply>(
        "/preheat.v1.Cache/Remove", /*blocking=*/false,
        [](Call&, const v1::RemoveRequest&, v1::RemoveReply&) { return absl::OkStatus(); }, RpcRouter::Access::kAdmin);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(router_.get());
    server_ = builder.BuildAndStart();
    auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
    compiler_ = v1::Compiler::NewStub(channel);
    cache_ = v1::Cache::NewStub(channel);
  }
  void TearDown() override {
    release_ = true;
    server_->Shutdown();
    server_.reset();
    router_.reset();
  }
  std::string Kind(const grpc::Status& status) { return status.ok() ? "" : GetError(FromGrpc(status)).kind; }

  std::unique_ptr<RpcRouter> router_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Compiler::Stub> compiler_;
  std::unique_ptr<v1::Cache::Stub> cache_;
  std::atomic<int> running_{0};
  std::atomic<bool> release_{false};
};

TEST_F(RouterTest, AnswersAndFailsWithTheWholeError) {
  Start({});
  grpc::ClientContext first, second, third;
  v1::StatsReply stats;
  EXPECT_TRUE(compiler_->Stats(&first, {}, &stats).ok());
  EXPECT_EQ(stats.entries(), 7);
  release_ = true;
  v1::CompileRequest request;
  request.set_name("what is wrong");
  second.AddMetadata("x-preheat-request-id", "id 1");
  v1::WhyMissReply reply;
  const absl::Status status = FromGrpc(compiler_->WhyMiss(&second, request, &reply));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(GetError(status).message, "what is wrong");
  EXPECT_EQ(GetError(status).where, "id?1") << "safe to log";
  v1::LookupReply lookup;
  EXPECT_EQ(Kind(compiler_->Lookup(&third, {}, &lookup)), "unknown_method");
}

TEST_F(RouterTest, StreamsInOrder) {
  Start({});
  grpc::ClientContext context;
  v1::ReadBlobRequest request;
  request.set_offset(5000);
  auto reader = cache_->ReadBlob(&context, request);
  v1::BlobChunk chunk;
  int64_t next = 0;
  while (reader->Read(&chunk)) EXPECT_EQ(chunk.data(), std::to_string(next++));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(next, 5000);
}

TEST_F(RouterTest, AReaderThatGoesAwayHurtsNobody) {
  Start({});
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    v1::ReadBlobRequest request;
    request.set_offset(100000);
    auto reader = cache_->ReadBlob(&context, request);
    v1::BlobChunk chunk;
    EXPECT_TRUE(reader->Read(&chunk));
    context.TryCancel();
    reader->Finish();
  }
  grpc::ClientContext context;
  v1::StatsReply stats;
  EXPECT_TRUE(compiler_->Stats(&context, {}, &stats).ok());
}

TEST_F(RouterTest, OnlySoManyCallsHoldAThread) {
  Start({.authorize = nullptr, .max_blocking = 2});
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      grpc::ClientContext context;
      v1::WhyMissReply reply;
      EXPECT_EQ(Kind(compiler_->WhyMiss(&context, {}, &reply)), "some_kind");
    });
  }
  while (running_ < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  grpc::ClientContext third, fourth;
  v1::WhyMissReply reply;
  EXPECT_EQ(Kind(compiler_->WhyMiss(&third, {}, &reply)), "too_many_calls");
  v1::StatsReply stats;
  EXPECT_TRUE(compiler_->Stats(&fourth, {}, &stats).ok()) << "quick ones go on";
  release_ = true;
  for (std::thread& caller : callers) caller.join();
}

TEST_F(RouterTest, ADeadlineEndsWhatWaits) {
  Start({});
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::WhyMissReply reply;
  EXPECT_EQ(compiler_->WhyMiss(&context, {}, &reply).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  for (int i = 0; i < 1000 && running_ > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(running_, 0);
}

TEST_F(RouterTest, AsksWhoCalls) {
  Start({.authorize = [](absl::string_view shown) -> absl::StatusOr<Identity> {
    if (shown.empty()) return MakeError(absl::StatusCode::kUnauthenticated, {.kind = "nobody", .message = "who?"});
    return Identity{.name = std::string(shown), .name_space = "", .admin = shown == "root"};
  }});
  const auto remove = [&](const char* shown) {
    grpc::ClientContext context;
    if (*shown != '\0') context.AddMetadata("authorization", shown);
    v1::RemoveReply reply;
    return Kind(cache_->Remove(&context, {}, &reply));
  };
  EXPECT_EQ(remove(""), "nobody");
  EXPECT_EQ(remove("user"), "admin_only");
  EXPECT_EQ(remove("root"), "");
}

}  // namespace
}  // namespace preheat::server
