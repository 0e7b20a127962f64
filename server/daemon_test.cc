// The whole server over a real port, with worker processes that do what the test says (server/fake_worker).

#include "server/daemon.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/rocksdb_store.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "proto/preheat/v1/cache.grpc.pb.h"
#include "proto/preheat/v1/compile.grpc.pb.h"
#include "proto/preheat/v1/pool.grpc.pb.h"
#include "proto/source_digest.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class DaemonTest : public testing::Test {
 protected:
  DaemonTest() {
    config_.data_dir = testing::TempDir() + "/daemon_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(config_.data_dir);
    config_.listen = "127.0.0.1";
    config_.port = 0;
    config_.http_port = 0;
    config_.worker_program = PREHEAT_FAKE_WORKER;
    config_.drain_seconds = 10;
  }
  ~DaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(config_.data_dir);
  }

  void Start() {
    daemon_.reset();
    auto daemon = Daemon::Start(config_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials());
    compiler_ = v1::Compiler::NewStub(channel);
    cache_ = v1::Cache::NewStub(channel);
    pool_ = v1::Pool::NewStub(channel);
  }

  static v1::CompileRequest Request(const std::string& program) {
    v1::CompileRequest request;
    request.mutable_source()->set_hlo_module(program);
    request.set_target("cpu:x86-64-v3");
    request.set_extern_allowed(true);
    request.set_name(program.substr(0, 40));
    return request;
  }

  static v1::CompileRequest ByDigest(const std::string& program) {
    v1::CompileRequest request = Request(program);
    const std::string digest = SourceDigest(*request.mutable_source());
    request.clear_source();
    request.set_source_digest(digest);
    return request;
  }

  absl::StatusOr<v1::CompileResult> Compile(const v1::CompileRequest& request, grpc::ClientContext* own = nullptr) {
    grpc::ClientContext fresh;
    grpc::ClientContext& context = own == nullptr ? fresh : *own;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    auto reader = compiler_->Compile(&context, request);
    v1::CompileEvent event;
    absl::StatusOr<v1::CompileResult> result = absl::UnknownError("the stream ended without a result");
    while (reader->Read(&event)) {
      if (event.has_done()) result = event.done();
      if (event.has_error()) result = FromProto(event.error());
    }
    if (grpc::Status status = reader->Finish(); !status.ok()) return FromGrpc(status);
    return result;
  }
  absl::StatusOr<v1::CompileResult> Compile(const std::string& program) { return Compile(Request(program)); }
  std::string KindOf(const absl::StatusOr<v1::CompileResult>& result) {
    return result.ok() ? "ok" : GetError(result.status()).kind;
  }

  v1::StatsReply Stats() {
    grpc::ClientContext context;
    v1::StatsReply reply;
    EXPECT_TRUE(compiler_->Stats(&context, {}, &reply).ok());
    return reply;
  }
  std::vector<v1::Entry> List() {
    grpc::ClientContext context;
    v1::ListReply reply;
    EXPECT_TRUE(cache_->List(&context, {}, &reply).ok());
    return {reply.entries().begin(), reply.entries().end()};
  }
  int64_t Crashes() {
    grpc::ClientContext context;
    v1::ListWorkersReply reply;
    EXPECT_TRUE(pool_->ListWorkers(&context, {}, &reply).ok());
    int64_t crashes = 0;
    for (const v1::WorkerInfo& worker : reply.workers()) crashes += worker.crashes();
    return crashes;
  }
  // Until a worker has something to do.
  void WaitBusy() {
    for (int i = 0; i < 600; ++i) {
      grpc::ClientContext context;
      v1::ListWorkersReply reply;
      EXPECT_TRUE(pool_->ListWorkers(&context, {}, &reply).ok());
      for (const v1::WorkerInfo& worker : reply.workers()) {
        if (worker.state() == "busy") return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "no worker became busy";
  }
  // Until so many distinct requests are waited for.
  void WaitInflight(int64_t count) {
    for (int i = 0; i < 200 && Stats().inflight() != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(Stats().inflight(), count);
  }
  absl::StatusOr<std::string> ReadBlob(const std::string& digest) {
    grpc::ClientContext context;
    v1::ReadBlobRequest request;
    request.set_digest(digest);
    auto reader = cache_->ReadBlob(&context, request);
    std::string bytes;
    v1::BlobChunk chunk;
    while (reader->Read(&chunk)) bytes += chunk.data();
    if (grpc::Status status = reader->Finish(); !status.ok()) return FromGrpc(status);
    return bytes;
  }
  v1::Evidence::State WaitForVerdict(const std::string& key) {
    for (int i = 0; i < 300; ++i) {
      for (const v1::Entry& entry : List()) {
        if (entry.key() == key && entry.verified() != v1::Evidence::PENDING) return entry.verified();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return v1::Evidence::PENDING;
  }

  Config config_;
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<v1::Compiler::Stub> compiler_;
  std::unique_ptr<v1::Cache::Stub> cache_;
  std::unique_ptr<v1::Pool::Stub> pool_;
};

TEST_F(DaemonTest, CompilesOnceThenHitsAlsoAfterARestart) {
  Start();
  auto first = Compile("key=a");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->result(), v1::COMPILED);
  EXPECT_EQ(first->key(), Digest("a"));
  EXPECT_EQ(first->manifest().generation(), 1u);
  EXPECT_EQ(*ReadBlob(first->manifest().plan().digest()), "plan of a");
  auto second = Compile("key=a");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->result(), v1::HIT);
  EXPECT_EQ(second->inputs(0).name(), "x");
  EXPECT_EQ(WaitForVerdict(first->key()), v1::Evidence::OK);
  Start();
  v1::CompileRequest request = Request("key=a");
  request.set_inline_blobs(true);
  request.add_have_blobs(Digest("code of a"));
  auto third = Compile(request);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->result(), v1::HIT);
  EXPECT_EQ(third->key(), first->key());
  EXPECT_EQ(third->manifest().evidence().state(), v1::Evidence::OK);
  ASSERT_EQ(third->blobs().size(), 1u);
  EXPECT_EQ(third->blobs().at(Digest("plan of a")), "plan of a");
  v1::StatsReply stats = Stats();
  EXPECT_EQ(stats.requests().at("hit"), 1);
  EXPECT_EQ(stats.requests().at("compiled"), 0);
  EXPECT_EQ(stats.seconds_saved(), 2);
  EXPECT_EQ(stats.entries(), 1);
}

TEST_F(DaemonTest, ManyWaitersOneCompile) {
  config_.workers = 2;
  Start();
  std::atomic<int> compiled = 0, coalesced = 0, hit = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      // Two sources of one key: joined by alias within each, by key between them.
      auto result = Compile(i % 2 == 0 ? "key=a work=2000" : "work=2000 key=a");
      ASSERT_TRUE(result.ok()) << result.status();
      compiled += result->result() == v1::COMPILED;
      coalesced += result->result() == v1::COALESCED;
      hit += result->result() == v1::HIT;  // of a thread that came late
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_GE(coalesced, 1);
  EXPECT_EQ(compiled + coalesced + hit, 8);
  EXPECT_EQ(List().front().generation(), 1u);
}

TEST_F(DaemonTest, AnotherSourceOfAStoredKeyIsAHit) {
  Start();
  ASSERT_TRUE(Compile("key=a").ok());
  auto result = Compile("key=a sleep=1");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->result(), v1::HIT);
}

TEST_F(DaemonTest, LooksWithoutCompiling) {
  Start();
  v1::CompileRequest look = Request("key=a");
  look.set_lookup_only(true);
  auto missing = Compile(look);
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_EQ(missing->result(), v1::MISSING);
  EXPECT_EQ(missing->key(), Digest("a"));
  EXPECT_TRUE(List().empty());
  ASSERT_TRUE(Compile("key=a").ok());
  EXPECT_EQ(Compile(look)->result(), v1::HIT);
}

TEST_F(DaemonTest, AnswersByDigestWhatItHasSeenAndAsksForTheRest) {
  Start();
  auto unseen = Compile(ByDigest("key=a"));
  ASSERT_TRUE(unseen.ok()) << unseen.status();
  EXPECT_EQ(unseen->result(), v1::SOURCE_NEEDED);
  EXPECT_FALSE(unseen->has_manifest());
  ASSERT_TRUE(Compile("key=a").ok());

  v1::CompileRequest request = ByDigest("key=a");
  request.set_job_id("job-1");
  request.set_inline_blobs(true);
  auto hit = Compile(request);
  ASSERT_TRUE(hit.ok()) << hit.status();
  EXPECT_EQ(hit->result(), v1::HIT);
  EXPECT_EQ(hit->key(), Digest("a"));
  EXPECT_EQ(hit->inputs(0).name(), "x");
  EXPECT_EQ(hit->blobs().at(Digest("plan of a")), "plan of a");
  EXPECT_TRUE(List().front().pinned()) << "for its job, like any hit";
  request.set_target("cpu:x86-64-v4");
  EXPECT_EQ(Compile(request)->result(), v1::SOURCE_NEEDED) << "another target is another artifact";

  EXPECT_EQ(KindOf(Compile("fail=odd_graph")), "odd_graph");
  EXPECT_EQ(KindOf(Compile(ByDigest("fail=odd_graph"))), "odd_graph");
  const auto requests = Stats().requests();
  EXPECT_EQ(requests.at("hit"), 1);
  EXPECT_EQ(requests.at("compiled"), 1);
  EXPECT_EQ(requests.at("failed"), 1);
  EXPECT_EQ(requests.at("negative"), 1);
  EXPECT_EQ(requests.at("refused"), 0) << "SOURCE_NEEDED is half a request";

  request.set_source_digest("key=a");
  EXPECT_EQ(KindOf(Compile(request)), "invalid_request");
  grpc::ClientContext why, explain;
  v1::WhyMissReply reply;
  EXPECT_EQ(GetError(FromGrpc(compiler_->WhyMiss(&why, ByDigest("key=b"), &reply))).where, "source");
  v1::ExplainRequest explained;
  *explained.mutable_request() = ByDigest("key=b");
  v1::ExplainReply explanation;
  EXPECT_EQ(GetError(FromGrpc(compiler_->Explain(&explain, explained, &explanation))).where, "source");
}

TEST_F(DaemonTest, SharesByDigestWhatOthersHaveCompiled) {
  Start();
  EXPECT_EQ(Compile(ByDigest("key=a work=1500"))->result(), v1::SOURCE_NEEDED);
  std::thread early([&] { EXPECT_EQ(Compile(ByDigest("key=a work=1500"))->result(), v1::COALESCED); });
  WaitInflight(1);
  std::thread whole([&] { EXPECT_EQ(Compile("key=a work=1500")->result(), v1::COMPILED); });
  WaitBusy();
  v1::CompileRequest look = ByDigest("key=a work=1500");
  look.set_lookup_only(true);
  EXPECT_EQ(Compile(look)->result(), v1::SOURCE_NEEDED) << "who only looks waits for no compile";
  auto late = Compile(ByDigest("key=a work=1500"));
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->result(), v1::COALESCED);
  EXPECT_EQ(late->inputs(0).name(), "x");
  early.join();
  whole.join();
  EXPECT_EQ(Stats().requests().at("coalesced"), 2);

  EXPECT_EQ(Compile(ByDigest("key=b"))->result(), v1::SOURCE_NEEDED);
  EXPECT_EQ(Compile(ByDigest("key=b"))->result(), v1::SOURCE_NEEDED) << "a moment later, since the first never came";
}

TEST_F(DaemonTest, ATaskSurvivesOneLostWorkerButNotTwo) {
  Start();
  std::string file = config_.data_dir + "/crashed";
  auto survived = Compile(absl::StrCat("key=a crash-once=", file));
  ASSERT_TRUE(survived.ok()) << survived.status();
  EXPECT_EQ(survived->result(), v1::COMPILED);
  EXPECT_EQ(Crashes(), 1);
  EXPECT_EQ(KindOf(Compile("key=b crash")), "task_killed_workers");
  EXPECT_EQ(Crashes(), 3);
  EXPECT_EQ(KindOf(Compile("key=b crash")), "task_killed_workers");  // from the negative cache
  EXPECT_EQ(Crashes(), 3);
  EXPECT_EQ(Stats().requests().at("negative"), 1);
  EXPECT_TRUE(Compile("key=c").ok());
}

TEST_F(DaemonTest, EndsATaskThatHangs) {
  config_.task_deadline_seconds = 3;
  Start();
  EXPECT_EQ(KindOf(Compile("key=a hang")), "task_deadline");
  EXPECT_TRUE(Compile("key=b").ok());
}

TEST_F(DaemonTest, ReplacesAWorkerThatStandsStill) {
  config_.heartbeat_seconds = 3;
  Start();
  EXPECT_EQ(KindOf(Compile("key=a stop")), "task_killed_workers");
  EXPECT_GE(Crashes(), 2);
}

TEST_F(DaemonTest, RemembersFailures) {
  Start();
  EXPECT_EQ(KindOf(Compile("fail=odd_graph")), "odd_graph");
  EXPECT_EQ(KindOf(Compile("fail=odd_graph")), "odd_graph");
  EXPECT_EQ(Stats().requests().at("failed"), 1);
  EXPECT_EQ(Stats().requests().at("negative"), 1);
}

TEST_F(DaemonTest, WithdrawsWhatFailsVerification) {
  Start();
  const absl::StatusOr<v1::CompileResult> first = Compile("key=a wrong");  // the verdict may be sooner than the reply
  EXPECT_TRUE(first.ok() || KindOf(first) == "failed_verification") << first.status();
  EXPECT_EQ(WaitForVerdict(Digest("a")), v1::Evidence::FAILED);
  EXPECT_EQ(KindOf(Compile("key=a wrong")), "failed_verification");
  EXPECT_TRUE(List().front().withdrawn());
  ASSERT_TRUE(Compile("key=b").ok());
  EXPECT_FALSE(List()[List()[0].key() == Digest("b") ? 0 : 1].withdrawn());
  Start();
  EXPECT_EQ(KindOf(Compile("key=a wrong")), "failed_verification");
}

TEST_F(DaemonTest, VerifiesFirstWhereItIsSetTo) {
  config_.verify_first = true;
  Start();
  auto right = Compile("key=a");
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_EQ(right->result(), v1::COMPILED);
  EXPECT_EQ(right->manifest().evidence().state(), v1::Evidence::OK);
  EXPECT_EQ(Compile("key=a")->manifest().evidence().state(), v1::Evidence::OK);
  EXPECT_EQ(KindOf(Compile("key=b wrong")), "failed_verification") << "the first one, too";
  EXPECT_EQ(KindOf(Compile("key=b wrong")), "failed_verification");
  Start();
  EXPECT_EQ(KindOf(Compile("key=b wrong")), "failed_verification");
  EXPECT_EQ(Compile("key=a")->result(), v1::HIT);
  EXPECT_EQ(Stats().entries(), 2);
  grpc::ClientContext context;
  v1::RemoveRequest remove;
  remove.set_key(Digest("b"));
  v1::RemoveReply reply;
  EXPECT_TRUE(cache_->Remove(&context, remove, &reply).ok());
  EXPECT_EQ(Compile("key=b")->result(), v1::COMPILED);
}

TEST_F(DaemonTest, RefusesExternCallsToAClientWithoutTorch) {
  Start();
  v1::CompileRequest request = Request("key=a extern");
  request.set_extern_allowed(false);
  auto refused = Compile(request);
  EXPECT_EQ(KindOf(refused), "extern_needs_torch");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("aten.sort.stable"));
  EXPECT_EQ(Compile("key=a extern")->result(), v1::HIT);
  request = Request("key=a extern");
  request.mutable_environment()->set_min_plan_version(2);
  request.mutable_environment()->set_max_plan_version(3);
  EXPECT_EQ(KindOf(Compile(request)), "incompatible_client");
}

TEST_F(DaemonTest, GivesUpWhatNobodyWaitsFor) {
  Start();
  grpc::ClientContext context;
  std::thread client([&] { EXPECT_FALSE(Compile(Request("key=a work=30000"), &context).ok()); });
  WaitBusy();
  context.TryCancel();
  client.join();
  auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Compile("key=b").ok());  // the only worker is free again
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(Crashes(), 0);
}

TEST_F(DaemonTest, PinsAGenerationForAJob) {
  Start();
  v1::CompileRequest request = Request("key=a");
  request.set_job_id("job-1");
  ASSERT_TRUE(Compile(request).ok());
  EXPECT_TRUE(List().front().pinned());
  grpc::ClientContext context;
  v1::RemoveRequest remove;
  remove.set_key(Digest("a"));
  v1::RemoveReply reply;
  EXPECT_EQ(GetError(FromGrpc(cache_->Remove(&context, remove, &reply))).kind, "pinned");
  grpc::ClientContext unpin_context;
  v1::PinRequest unpin;
  unpin.set_key(Digest("a"));
  unpin.set_job_id("job-1");
  v1::PinReply unpinned;
  EXPECT_TRUE(cache_->Unpin(&unpin_context, unpin, &unpinned).ok());
  grpc::ClientContext remove_context;
  EXPECT_TRUE(cache_->Remove(&remove_context, remove, &reply).ok());
  EXPECT_EQ(reply.entries(), 1);
  EXPECT_EQ(Compile("key=a")->result(), v1::COMPILED);
}

TEST_F(DaemonTest, ExplainsAMiss) {
  Start();
  ASSERT_TRUE(Compile("key=a").ok());
  grpc::ClientContext context;
  v1::WhyMissReply reply;
  ASSERT_TRUE(compiler_->WhyMiss(&context, Request("key=b"), &reply).ok());
  EXPECT_FALSE(reply.hit());
  EXPECT_EQ(reply.nearest_key(), Digest("a"));
  ASSERT_EQ(reply.differences_size(), 1);
  EXPECT_EQ(reply.differences(0).wanted(), "b");
}

TEST_F(DaemonTest, ExplainsAndVerifiesByKey) {
  Start();
  ASSERT_TRUE(Compile("key=a").ok());
  grpc::ClientContext explain_context, verify_context, unknown_context;
  v1::ExplainRequest explain;
  explain.set_key(Digest("a"));
  v1::ExplainReply explained;
  ASSERT_TRUE(compiler_->Explain(&explain_context, explain, &explained).ok());
  EXPECT_EQ(explained.report().kernels_before(), 3);
  v1::VerifyRequest verify;
  verify.set_key(Digest("a"));
  v1::VerifyReply verified;
  ASSERT_TRUE(compiler_->Verify(&verify_context, verify, &verified).ok());
  EXPECT_TRUE(verified.ok());
  verify.set_key(Digest("b"));
  EXPECT_EQ(GetError(FromGrpc(compiler_->Verify(&unknown_context, verify, &verified))).kind, "unknown_key");
}

TEST_F(DaemonTest, DrainsLettingCompilesFinish) {
  Start();
  std::thread client([&] {
    auto result = Compile("key=a work=1500");
    EXPECT_TRUE(result.ok()) << result.status();
  });
  WaitBusy();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(KindOf(Compile("key=b")), "draining");
  });
  daemon_->Drain();
  client.join();
  late.join();
  EXPECT_FALSE(std::filesystem::exists(config_.data_dir + "/server.json"));
  Start();
  EXPECT_EQ(Compile("key=a work=1500")->result(), v1::HIT);
}

TEST_F(DaemonTest, HoldsNamespacesToTheirQuotas) {
  config_.quota_file = config_.data_dir + ".quotas";
  std::ofstream(config_.quota_file) << "busy 1 -\nfull - 0\n";
  Start();
  auto of = [](const std::string& name_space, const std::string& program) {
    v1::CompileRequest request = Request(program);
    request.set_name_space(name_space);
    return request;
  };
  grpc::ClientContext context;
  std::thread first([&] { EXPECT_EQ(KindOf(Compile(of("busy", "key=a work=30000"), &context)), "cancelled"); });
  WaitBusy();
  EXPECT_EQ(KindOf(Compile(of("busy", "key=b"))), "quota_compiles");
  context.TryCancel();
  first.join();
  std::string kind = "quota_compiles";  // until the worker has let go of what nobody waits for
  for (int i = 0; i < 600 && kind == "quota_compiles"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kind = KindOf(Compile(of("busy", "key=b")));
  }
  EXPECT_EQ(kind, "ok");
  EXPECT_EQ(KindOf(Compile(of("busy", "key=c"))), "ok") << "its place is free when the answer comes";

  EXPECT_EQ(KindOf(Compile(of("full", "key=d"))), "quota_bytes");
  EXPECT_EQ(KindOf(Compile(of("full", "key=c"))), "ok") << "what is stored is everybody's";
  EXPECT_EQ(Compile(ByDigest("key=d"))->result(), v1::SOURCE_NEEDED);
  std::thread other(
      [&] { EXPECT_EQ(Compile(ByDigest("key=d"))->result(), v1::SOURCE_NEEDED) << "another's quota is not its own"; });
  WaitInflight(1);
  EXPECT_EQ(KindOf(Compile(of("full", "key=d"))), "quota_bytes");
  other.join();
  EXPECT_EQ(KindOf(Compile(of("", "key=d"))), "ok");
  EXPECT_GE(Stats().requests().at("refused"), 2);
  std::filesystem::remove(config_.quota_file);
}

TEST_F(DaemonTest, NamesATargetThatIsNone) {
  Start();
  v1::CompileRequest request = Request("key=a");
  request.set_target("tpu:v5");
  EXPECT_EQ(KindOf(Compile(request)), "unsupported_target");
  ASSERT_TRUE(Compile("key=b").ok());  // a worker is there now
  request.set_target("cuda:sm_90");
  EXPECT_EQ(KindOf(Compile(request)), "no_worker_for_target");
}

TEST_F(DaemonTest, ResumesVerifications) {
  config_.verify = false;
  Start();
  ASSERT_TRUE(Compile("key=a").ok());
  EXPECT_EQ(List().front().verified(), v1::Evidence::PENDING);
  config_.verify = true;
  Start();
  EXPECT_EQ(WaitForVerdict(Digest("a")), v1::Evidence::OK);
}

TEST_F(DaemonTest, WorkersAreNotTakenWhereClientsAre) {
  Start();
  grpc::ClientContext context;
  context.AddMetadata("x-preheat-pool-token", std::string(32, '0'));
  auto stream = pool_->Work(&context);
  v1::WorkerMessage hello;
  hello.mutable_registration()->set_worker_id("intruder");
  hello.mutable_registration()->set_target("cpu:x86-64-v3");
  stream->Write(hello);
  v1::ServerMessage message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(GetError(FromGrpc(stream->Finish())).kind, "unknown_method");
}

TEST_F(DaemonTest, CompilesAgainWhatHasBecomeCorrupt) {
  Start();
  ASSERT_TRUE(Compile("key=a").ok());
  daemon_.reset();
  {
    auto store = cache::OpenRocksdbStore(config_.data_dir + "/store");
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(
        (*store)->Write({{cache::Table::kBlob, Digest("plan of a"), "plan of b"}}, cache::Durability::kSynced).ok());
  }
  Start();
  v1::CompileRequest request = Request("key=a");
  request.set_inline_blobs(true);
  auto result = Compile(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->result(), v1::COMPILED);
  EXPECT_EQ(result->blobs().at(Digest("plan of a")), "plan of a");
  EXPECT_EQ(Stats().corrupt(), 1);
}

TEST_F(DaemonTest, ComesUpWithADamagedStoreAndSaysSo) {
  Start();
  ASSERT_TRUE(Compile("key=a").ok());
  daemon_.reset();
  std::ofstream(config_.data_dir + "/store/CURRENT") << "nonsense";
  Start();
  EXPECT_EQ(Compile("key=a")->result(), v1::HIT);
  EXPECT_EQ(Stats().corrupt(), 1);
  daemon_.reset();
  std::filesystem::remove_all(config_.data_dir + "/store");
  Start();
  EXPECT_EQ(Compile("key=a")->result(), v1::COMPILED);
  EXPECT_EQ(Stats().corrupt(), 1) << "the ledger names what is lost";
}

TEST_F(DaemonTest, CarriesArtifactsOverInAnArchive) {
  Start();
  ASSERT_TRUE(Compile("key=a size=3000").ok());
  grpc::ClientContext export_context;
  auto reader = cache_->Export(&export_context, {});
  std::vector<v1::BlobChunk> chunks;
  for (v1::BlobChunk chunk; reader->Read(&chunk);) chunks.push_back(chunk);
  ASSERT_TRUE(reader->Finish().ok());
  auto import = [&](size_t count) {
    grpc::ClientContext context;
    v1::ImportReply reply;
    auto writer = cache_->Import(&context, &reply);
    for (size_t i = 0; i < count; ++i) writer->Write(chunks[i]);
    writer->WritesDone();
    grpc::Status status = writer->Finish();
    return status.ok() ? absl::StatusOr<v1::ImportReply>(reply) : FromGrpc(status);
  };
  EXPECT_EQ(import(chunks.size())->entries(), 0) << "it is there already";
  config_.data_dir += "_2";
  std::filesystem::remove_all(config_.data_dir);
  Start();
  EXPECT_EQ(GetError(import(chunks.size() - 1).status()).kind, "bad_archive");
  EXPECT_TRUE(List().empty());
  EXPECT_EQ(import(chunks.size())->entries(), 1);
  EXPECT_EQ(Compile("key=a size=3000")->result(), v1::HIT);
  EXPECT_TRUE(std::filesystem::is_empty(config_.data_dir + "/spool"));
}

TEST_F(DaemonTest, KeepsToItsBudget) {
  config_.max_cache_bytes = 300 << 10;
  config_.gc_age_seconds = 0;
  config_.gc_every_seconds = 1;
  Start();
  v1::CompileRequest pinned = Request("key=pinned size=100");
  pinned.set_job_id("job");
  ASSERT_TRUE(Compile(pinned).ok());
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(Compile(absl::StrCat("key=", i, " size=100")).ok());
  for (int i = 0; i < 200 && Stats().bytes() > config_.max_cache_bytes; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LE(Stats().bytes(), config_.max_cache_bytes);
  EXPECT_GE(Stats().evicted_bytes(), 300 << 10);
  EXPECT_EQ(Compile("key=pinned size=100")->result(), v1::HIT);
  EXPECT_EQ(Compile("key=5 size=100")->result(), v1::HIT);
}

TEST_F(DaemonTest, NamesAPortThatIsTaken) {
  Start();
  Config second = config_;
  second.data_dir += "_2";
  second.port = daemon_->port();
  auto refused = Daemon::Start(second);
  EXPECT_EQ(GetError(refused.status()).kind, "cannot_listen");
  second.port = 0;
  second.data_dir = config_.data_dir;
  EXPECT_EQ(GetError(Daemon::Start(second).status()).kind, "data_dir_in_use");
  std::filesystem::remove_all(config_.data_dir + "_2");
}

}  // namespace
}  // namespace preheat::server
