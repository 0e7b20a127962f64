#include "client/cpp/client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>

#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "proto/preheat/v1/cache.grpc.pb.h"
#include "proto/preheat/v1/compile.grpc.pb.h"
#include "proto/preheat/v1/rpc_status.pb.h"
#include "proto/source_digest.h"

namespace preheat {
namespace {

// A server that fails on purpose, over a real port: what the real one does only on bad days.
class Faulty : public v1::Compiler::Service, public v1::Cache::Service {
 public:
  std::atomic<int> unavailable{0};  // calls to refuse before one is answered
  std::atomic<int> busy{0};         // calls of Stats to refuse for a while
  std::atomic<int> calls{0};
  const std::string blob = "the plan";

  // What a test looks at or changes between calls, under the lock: calls are handled by threads of gRPC.
  struct State {
    bool knows_digests = true;  // as versions before 0.2 do not
    std::string known;          // the digest of the one program that it has
    std::string sent;           // what ReadBlob sends; the blob when empty
    std::vector<std::string> request_ids;
    v1::CompileRequest last;
    v1::LocalHits hits;
  };
  State state() {
    std::lock_guard lock(mutex_);
    return state_;
  }
  void Set(std::string State::*field, const std::string& value) {
    std::lock_guard lock(mutex_);
    state_.*field = value;
  }
  void KnowNoDigests() {
    std::lock_guard lock(mutex_);
    state_.knows_digests = false;
  }

  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                       grpc::ServerWriter<v1::CompileEvent>* events) override {
    const auto id = context->client_metadata().find("x-preheat-request-id");
    std::lock_guard lock(mutex_);
    ++calls;
    state_.request_ids.emplace_back(id->second.data(), id->second.size());
    state_.last = *request;
    if (unavailable-- > 0) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    v1::CompileEvent event;
    if (!request->source_digest().empty() && !state_.knows_digests)
      return Refusal("invalid_request", std::nullopt, "source", grpc::StatusCode::INVALID_ARGUMENT);
    if (!request->source_digest().empty() && request->source_digest() != state_.known) {
      event.mutable_done()->set_result(v1::SOURCE_NEEDED);
      events->Write(event);
      return grpc::Status::OK;
    }
    event.mutable_progress()->set_stage("passes");
    events->Write(event);
    v1::CompileResult& result = *event.mutable_done();
    result.set_key("k");
    result.set_result(v1::COMPILED);
    result.add_inputs();
    result.mutable_manifest()->mutable_plan()->set_digest(Digest(blob));
    result.mutable_manifest()->mutable_plan()->set_size_bytes(static_cast<int64_t>(blob.size()));
    events->Write(event);
    return grpc::Status::OK;
  }
  grpc::Status Stats(grpc::ServerContext*, const v1::StatsRequest*, v1::StatsReply*) override {
    ++calls;
    if (busy-- > 0) return Refusal("queue_full", 20);
    return Refusal("quota", std::nullopt);
  }
  static grpc::Status Refusal(const std::string& kind, std::optional<int> wait_ms, const std::string& where = "",
                              grpc::StatusCode code = grpc::StatusCode::RESOURCE_EXHAUSTED) {
    v1::Error error;
    error.set_code(code == grpc::StatusCode::INVALID_ARGUMENT ? "INVALID_ARGUMENT" : "RESOURCE_EXHAUSTED");
    error.set_where(where);
    error.set_kind(kind);
    error.set_message("enough for today");
    error.set_fix("tomorrow");
    v1::RpcStatus details;
    google::protobuf::Any& any = *details.add_details();
    any.set_type_url("type.googleapis.com/preheat.v1.Error");
    any.set_value(error.SerializeAsString());
    if (wait_ms) {
      v1::RetryInfo retry;
      retry.mutable_retry_delay()->set_nanos(*wait_ms * 1000000);
      google::protobuf::Any& more = *details.add_details();
      more.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
      more.set_value(retry.SerializeAsString());
    }
    return grpc::Status(code, "text", details.SerializeAsString());
  }
  grpc::Status ReportLocalHits(grpc::ServerContext*, const v1::LocalHits* request, v1::LocalHitsReply*) override {
    std::lock_guard lock(mutex_);
    state_.hits = *request;
    return grpc::Status::OK;
  }
  grpc::Status ReadBlob(grpc::ServerContext*, const v1::ReadBlobRequest*,
                        grpc::ServerWriter<v1::BlobChunk>* chunks) override {
    ++calls;
    v1::BlobChunk chunk;
    const std::string sent = state().sent;
    for (char c : sent.empty() ? blob : sent) {
      chunk.set_data(std::string(1, c));
      chunks->Write(chunk);
    }
    return grpc::Status::OK;
  }

 private:
  std::mutex mutex_;
  State state_;  // guarded by mutex_
};

class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::Compiler::Service*>(&faulty_));
    builder.RegisterService(static_cast<v1::Cache::Service*>(&faulty_));
    server_ = builder.BuildAndStart();
    cache_ = testing::TempDir() + "/client_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(cache_);
  }
  void TearDown() override { server_->Shutdown(); }

  ClientOptions Options() const {
    ClientOptions options;
    options.server = "127.0.0.1:" + std::to_string(port_);
    options.cache_dir = cache_;
    options.deadline = absl::Seconds(30);
    return options;
  }
  v1::BlobRef Blob() const {
    v1::BlobRef blob;
    blob.set_digest(Digest(faulty_.blob));
    blob.set_size_bytes(static_cast<int64_t>(faulty_.blob.size()));
    return blob;
  }

  Faulty faulty_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::string cache_;
};

TEST_F(ClientTest, AsksAgainWhileUnavailableUnderOneRequestId) {
  faulty_.unavailable = 2;
  Client client(Options());
  int progress = 0;
  auto result = client.Request({}, {}, [&](const v1::Progress& p) { progress += p.stage() == "passes"; });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->key(), "k");
  EXPECT_EQ(progress, 1);
  ASSERT_EQ(faulty_.state().request_ids.size(), 3u);
  EXPECT_EQ(faulty_.state().request_ids[0], faulty_.state().request_ids[2]);
  EXPECT_FALSE(faulty_.state().last.environment().cpu().empty());
}

TEST_F(ClientTest, GivesUpAfterItsAttempts) {
  faulty_.unavailable = 100;
  ClientOptions options = Options();
  options.attempts = 3;
  EXPECT_EQ(GetError(Client(options).Request({}, {}).status()).kind, "unreachable");
  EXPECT_EQ(faulty_.calls, 3);
}

TEST_F(ClientTest, TheServersErrorArrivesWhole) {
  const absl::Status status = Client(Options()).Stats().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetError(status).kind, "quota");
  EXPECT_EQ(GetError(status).message, "enough for today");
  EXPECT_EQ(GetError(status).fix, "tomorrow");
  EXPECT_EQ(faulty_.calls, 1) << "a refusal is not asked again";
}

TEST_F(ClientTest, WaitsAsLongAsTheServerAsks) {
  faulty_.busy = 6;  // more often than an unreachable server is tried
  const absl::Status status = Client(Options()).Stats().status();
  EXPECT_EQ(GetError(status).kind, "quota");
  EXPECT_EQ(faulty_.calls, 7);

  faulty_.busy = 1000;
  ClientOptions hasty = Options();
  hasty.deadline = absl::Seconds(2);
  EXPECT_EQ(GetError(Client(hasty).Stats().status()).kind, "queue_full") << "said while there is time to act on it";
}

TEST_F(ClientTest, BlobsAreVerifiedAndKept) {
  Client client(Options());
  EXPECT_EQ(*client.ReadBlob(Blob()), "the plan");
  faulty_.Set(&Faulty::State::sent, "the pl4n");
  EXPECT_EQ(*client.ReadBlob(Blob()), "the plan") << "from the local cache";
  EXPECT_EQ(faulty_.calls, 1);

  ClientOptions empty = Options();
  empty.cache_dir = cache_ + "_other";
  std::filesystem::remove_all(empty.cache_dir);
  EXPECT_EQ(GetError(Client(empty).ReadBlob(Blob()).status()).kind, "corrupt_blob");
  faulty_.Set(&Faulty::State::sent, std::string(100, 'x'));  // more than was announced
  EXPECT_EQ(GetError(Client(empty).ReadBlob(Blob()).status()).kind, "corrupt_blob");
}

TEST_F(ClientTest, AnswersFromTheLocalCacheOnlyWhileNobodyElseDoes) {
  Client client(Options());
  ASSERT_TRUE(client.Request({}, {}).ok());
  faulty_.unavailable = 100;
  EXPECT_TRUE(absl::IsUnavailable(client.Request({}, {}).status())) << "its plan is not in the cache";
  ASSERT_TRUE(client.ReadBlob(Blob()).ok());
  auto kept = client.Request({}, {});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->result(), v1::HIT);
  RequestOptions other;
  other.dims = {{"seq", 8}};
  EXPECT_TRUE(absl::IsUnavailable(client.Request({}, other).status())) << "another request";
  ClientOptions strict = Options();
  strict.offline = false;
  EXPECT_TRUE(absl::IsUnavailable(Client(strict).Request({}, {}).status()));

  faulty_.unavailable = 0;
  ASSERT_TRUE(client.Request({}, {}).ok());
  EXPECT_EQ(faulty_.state().hits.hits().at("k"), 1) << "told once the server is back";
}

v1::Source LargeSource() {
  v1::Source source;
  v1::Program& program = *source.mutable_program();
  for (int i = 0; i < 2000; ++i) program.add_nodes()->set_op("aten.relu.default");
  program.mutable_debug_info()->add_input_names("ids");
  return source;
}

TEST_F(ClientTest, AsksForLargeProgramsByDigestFirst) {
  v1::Source source = LargeSource();
  Client client(Options());
  ASSERT_TRUE(client.Request(source, {}).ok());
  EXPECT_EQ(faulty_.calls, 2) << "by digest, then whole";
  EXPECT_EQ(faulty_.state().last.source().SerializeAsString(), source.SerializeAsString());
  EXPECT_EQ(faulty_.state().last.source_digest(), "");

  faulty_.Set(&Faulty::State::known, SourceDigest(source));
  auto hit = client.Request(source, {});
  ASSERT_TRUE(hit.ok()) << hit.status();
  EXPECT_EQ(faulty_.calls, 3);
  EXPECT_FALSE(faulty_.state().last.has_source());
  EXPECT_EQ(hit->inputs(0).name(), "ids") << "the server has not seen the name";

  ASSERT_TRUE(client.Request({}, {}).ok());
  EXPECT_EQ(faulty_.state().last.source_digest(), "") << "what is small is sent at once";
}

TEST_F(ClientTest, SendsProgramsToServersThatKnowNoDigests) {
  faulty_.KnowNoDigests();
  Client client(Options());
  ASSERT_TRUE(client.Request(LargeSource(), {}).ok());
  EXPECT_EQ(faulty_.calls, 2);
  ASSERT_TRUE(client.Request(LargeSource(), {}).ok());
  EXPECT_EQ(faulty_.calls, 3) << "it has been told once";
}

TEST_F(ClientTest, AServerThatIsNotThereIsUnreachable) {
  ClientOptions options = Options();
  options.server = "127.0.0.1:1";
  const absl::Status status = Client(options).Stats().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetError(status).kind, "unreachable");
}

TEST_F(ClientTest, TokenFilesThatCannotBeReadAreNamed) {
  ClientOptions options = Options();
  options.token_file = cache_ + "/no-token";
  EXPECT_EQ(GetError(Client(options).Stats().status()).kind, "unreadable_file");
  EXPECT_EQ(faulty_.calls, 0);
}

}  // namespace
}  // namespace preheat
