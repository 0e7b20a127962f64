#include "server/daemon.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/cache_methods.h"
#include "server/cache_service.h"
#include "server/compile_service.h"
#include "server/durable_state.h"
#include "server/find_artifact.h"
#include "server/housekeeping.h"
#include "server/http_server.h"
#include "server/identity.h"
#include "server/pool_service.h"
#include "server/process_memory.h"
#include "server/quotas.h"
#include "server/reflected_services.h"
#include "server/rpc_router.h"
#include "server/server_credentials.h"
#include "server/services.h"
#include "server/status_page.h"
#include "server/verification.h"
#include "server/worker_processes.h"

namespace preheat::server {
namespace {

constexpr int kLargestArtifact = 256 << 20;  // what a worker sends in one message
constexpr int64_t kMessageSlack = 1 << 20;   // so that what is a little too large is refused in our own words
// Of what clients make the server hold: messages that arrive; blobs on their way to readers. With messages that are
// being read (rpc_router.h) and programs that wait (admission.h).
constexpr int64_t kTransportBytes = int64_t{208} << 20;
constexpr int64_t kOutgoingBytes = int64_t{256} << 20;
constexpr int64_t kLeastWorkerMemory = int64_t{2} << 30;
constexpr int kReplyThreads = 2;
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr std::chrono::seconds kLastCalls{5};
constexpr std::chrono::seconds kWorkersEnd{5};

std::string RandomToken() {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) std::abort();  // no safe token, no service
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(bytes), sizeof(bytes)));
}

// preheat-worker lies beside preheatd.
std::string WorkerProgram(const Config& config) {
  if (!config.worker_program.empty()) return config.worker_program;
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "preheat-worker").string();
}

// Unless it is said otherwise, the workers share half of the machine. Less than torch with a compiler needs would end
// every task.
int64_t WorkerMemoryBytes(const Config& config) {
  if (config.worker_memory_bytes > 0) return config.worker_memory_bytes;
  return std::max(kLeastWorkerMemory, MachineMemoryBytes() / 2 / std::max<int64_t>(config.workers, 1));
}

HttpReply Page(absl::StatusOr<std::string> html) {
  if (html.ok()) return {200, kHtml, *std::move(html)};
  return {absl::IsNotFound(html.status()) || absl::IsInvalidArgument(html.status()) ? 404 : 500, kHtml,
          ErrorPage(html.status())};
}

HttpReply ShowArtifacts(cache::ArtifactIndex& index) {
  auto entries = index.List("");
  if (!entries.ok()) return Page(entries.status());
  return Page(ArtifactsPage(*std::move(entries), cache::SystemNowMs()));
}

absl::StatusOr<v1::FusionReport> ReadReport(cache::ArtifactIndex& index, const v1::Manifest& manifest) {
  ASSIGN_OR_RETURN(std::string bytes, index.blobs().Read(manifest.report().digest()));
  v1::FusionReport report;
  if (!report.ParseFromString(bytes)) return absl::DataLossError("the report cannot be read");
  return report;
}

HttpReply ShowArtifact(cache::ArtifactIndex& index, const std::string& key) {
  auto record = FindArtifact(index, key, 0);
  if (!record.ok()) return Page(record.status());
  auto entries = index.List(key);
  if (!entries.ok()) return Page(entries.status());
  const ArtifactView view = {.entry = entries->empty() ? v1::Entry() : entries->front(),
                             .manifest = record->manifest(),
                             .report = ReadReport(index, record->manifest())};
  return Page(ArtifactPage(view, cache::SystemNowMs()));
}

PoolOptions PoolOptionsOf(const Config& config) {
  PoolOptions options;
  options.max_queue = static_cast<size_t>(config.max_queue);
  options.task_deadline = std::chrono::seconds(config.task_deadline_seconds);
  options.heartbeat_timeout = std::chrono::seconds(config.heartbeat_seconds);
  options.max_resident_bytes = WorkerMemoryBytes(config);
  return options;
}

class DaemonImpl : public Daemon {
 public:
  explicit DaemonImpl(const Config& config)
      : config_(config),
        admission_({.max_request_bytes = config.max_request_bytes, .max_waiting = config.max_waiting}),
        pool_(PoolOptionsOf(config)) {}

  ~DaemonImpl() override {
    if (workers_ != nullptr && server_ != nullptr) Drain();
  }

  absl::Status Open() {
    if (!config_.token_file.empty()) {
      ASSIGN_OR_RETURN(tokens_, Tokens::Read(config_.token_file));
    }
    RETURN_IF_ERROR(OpenStore());
    ASSIGN_OR_RETURN(quotas_, Quotas::Read(config_.quota_file, [this] { return state_.index->BytesByNamespace(); }));
    MakeServices();
    RETURN_IF_ERROR(ListenToWorkers());
    RETURN_IF_ERROR(ListenGrpc());
    RETURN_IF_ERROR(ListenHttp());
    housekeeping_ = std::make_unique<Housekeeping>(*services_, *state_.store, config_, tokens_.get());
    StartWorkers();
    if (config_.verify) ResumeVerifications(*services_);
    return WriteServerFile();
  }

  int port() const override { return port_; }
  int http_port() const override { return http_->port(); }

  void Drain() override {
    spdlog::info("draining: running compiles have {} s", config_.drain_seconds);
    server_->GetHealthCheckService()->SetServingStatus(false);
    draining_ = true;
    pool_.Drain();
    if (!pool_.WaitIdle(std::chrono::seconds(config_.drain_seconds)))
      spdlog::warn("not all compiles have finished in time");
    pool_.Shutdown();
    workers_->Stop(kWorkersEnd);
    server_->Shutdown(std::chrono::system_clock::now() + kLastCalls);
    server_.reset();
    pool_server_->Shutdown(std::chrono::system_clock::now() + kLastCalls);
    pool_server_.reset();
    housekeeping_.reset();  // flushes
    http_.reset();
    std::filesystem::remove(ServerFile());
    spdlog::info("stopped");
  }

 private:
  absl::Status OpenStore() {
    ASSIGN_OR_RETURN(state_, OpenDurableState(config_.data_dir, metrics_));
    RestoreToolchain(*state_.store, pool_);
    tuning_ = std::make_unique<TuningState>(*state_.store, state_.index->uses(), config_.tune_when_busy);
    return absl::OkStatus();
  }

  void MakeServices() {
    services_.reset(new Services{*state_.index, inflight_, pool_, negative_, admission_, *quotas_, metrics_, history_,
                                 replies_, outgoing_, *tuning_, config_.verify, config_.verify_first,
                                 GarbagePolicyOf(config_), config_.data_dir + "/spool",
                                 std::chrono::seconds(config_.tune_after_seconds)});
    std::error_code ignored;
    std::filesystem::remove_all(services_->spool_folder, ignored);
  }

  // Workers have a listener of their own, on this machine alone: what they send is larger than any request may be.
  absl::Status ListenToWorkers() {
    pool_service_ = std::make_unique<PoolService>(pool_, *state_.kernels, tuning_->records(), token_,
                                                  [this](const std::string& id) { workers_->Kill(id); });
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &pool_port_);
    builder.SetMaxReceiveMessageSize(kLargestArtifact);
    builder.SetMaxSendMessageSize(kLargestArtifact);
    builder.RegisterService(pool_service_.get());
    pool_server_ = builder.BuildAndStart();
    return pool_server_ != nullptr && pool_port_ != 0 ? absl::OkStatus() : CannotListen("127.0.0.1:0");
  }

  absl::Status ListenGrpc() {
    RouterOptions options{.authorize = nullptr, .max_message_memory = config_.max_request_bytes * 5 / 2};
    if (tokens_ != nullptr) options.authorize = [this](absl::string_view shown) { return tokens_->Check(shown); };
    router_ = std::make_unique<RpcRouter>(std::move(options));
    cache_service_ = std::make_unique<CacheService>(*services_);
    public_cache_ = std::make_unique<PublicCache>(*router_, *cache_service_);
    AddCompilerMethods(*router_, *services_);
    AddCacheMethods(*router_, *services_, *cache_service_);
    AddPoolMethods(*router_, pool_);
    ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials, ServerCredentialsOf(config_));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    std::string address = absl::StrCat(config_.listen, ":", config_.port);
    builder.AddListeningPort(address, credentials, &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two servers on one port would share its clients
    builder.SetMaxReceiveMessageSize(static_cast<int>(config_.max_request_bytes + kMessageSlack));
    builder.SetMaxSendMessageSize(kLargestArtifact);
    // A few compressed kilobytes could become any number of bytes before a limit is looked at.
    for (grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    builder.SetResourceQuota(grpc::ResourceQuota("clients").Resize(kTransportBytes));
    builder.RegisterService(&listed_compiler_);
    builder.RegisterService(&listed_pool_);
    builder.RegisterService(public_cache_.get());
    builder.RegisterCallbackGenericService(router_.get());
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ != 0) return WarnIfOpen();
    server_.reset();
    return CannotListen(address);
  }

  absl::Status WarnIfOpen() const {
    const bool here = config_.listen == "127.0.0.1" || config_.listen == "localhost" || config_.listen == "[::1]";
    if (!here && tokens_ == nullptr && config_.tls_client_ca.empty()) {
      spdlog::warn("everybody who reaches {} may compile and remove: set token_file or tls_client_ca", config_.listen);
    }
    return absl::OkStatus();
  }

  static absl::Status CannotListen(const std::string& address) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.kind = "cannot_listen",
                      .message = absl::StrCat("cannot listen for gRPC on ", address),
                      .where = address,
                      .fix = "another program has the port: give another --port, or 0 for a free one"});
  }

  absl::Status ListenHttp() {
    HttpServer::Handlers handlers;
    handlers["/metrics"] = [this](const std::string&) {
      return HttpReply{200, "text/plain; version=0.0.4; charset=utf-8", metrics_.Text(ReadGauges())};
    };
    handlers["/healthz"] = [](const std::string&) { return HttpReply{200, "text/plain; charset=utf-8", "ok\n"}; };
    handlers["/readyz"] = [this](const std::string&) { return Ready(); };
    handlers["/"] = [this](const std::string&) { return HttpReply{200, kHtml, StatusPage(ReadStatus())}; };
    handlers["/artifacts"] = [this](const std::string&) { return ShowArtifacts(*state_.index); };
    handlers["/artifact/"] = [this](const std::string& key) { return ShowArtifact(*state_.index, key); };
    ASSIGN_OR_RETURN(http_,
                     HttpServer::Start(config_.listen, static_cast<int>(config_.http_port), std::move(handlers)));
    return absl::OkStatus();
  }

  HttpReply Ready() {
    Pool::Counts counts = pool_.Count();
    if (draining_) return {503, "text/plain; charset=utf-8", "draining\n"};
    if (counts.idle + counts.busy == 0) return {503, "text/plain; charset=utf-8", "no worker yet\n"};
    return {200, "text/plain; charset=utf-8", "ready\n"};
  }

  Gauges ReadGauges() {
    Gauges gauges;
    if (auto totals = state_.index->Count(); totals.ok()) {
      gauges.cache_bytes = totals->bytes;
      gauges.cache_entries = totals->entries;
    }
    gauges.inflight = static_cast<int64_t>(inflight_.waited_for());
    gauges.queue_depth = static_cast<int64_t>(pool_.Count().queued);
    gauges.workers[{"cpu:0", "idle"}] = 0;  // shown before the first worker is there
    for (const v1::WorkerInfo& worker : pool_.Workers()) ++gauges.workers[{worker.device(), worker.state()}];
    return gauges;
  }

  Status ReadStatus() {
    Status status;
    status.unix_ms = cache::SystemNowMs();
    status.data_dir = config_.data_dir;
    status.stats = metrics_.Stats();
    status.gauges = ReadGauges();
    status.workers = pool_.Workers();
    status.minutes = history_.Minutes();
    status.compiles = history_.Compiles();
    status.notices = state_.notes;
    if (draining_) status.notices.push_back("draining: no new work is taken");
    return status;
  }

  void StartWorkers() {
    workers_ = std::make_unique<WorkerProcesses>(WorkerProcessesOptions{
        .program = WorkerProgram(config_),
        .count = static_cast<int>(config_.workers),
        .gpus = config_.gpu_workers < 0 ? CountGpus() : static_cast<int>(config_.gpu_workers),
        .server = absl::StrCat("127.0.0.1:", pool_port_),
        .pool_token = token_,
        .log_folder = config_.data_dir,
        .on_memory = [this](const std::string& id, int64_t bytes) { pool_.NoteMemory(id, bytes); }});
    workers_->Start();
  }

  std::string ServerFile() const { return config_.data_dir + "/server.json"; }

  // Written last and in one step: who reads it finds a server that listens.
  absl::Status WriteServerFile() {
    nlohmann::json json = {{"pid", getpid()}, {"port", port_}, {"http_port", http_->port()}};
    std::string temporary = ServerFile() + ".new";
    std::ofstream(temporary) << json.dump() << "\n";
    std::error_code error;
    std::filesystem::rename(temporary, ServerFile(), error);
    if (!error) return absl::OkStatus();
    return MakeError(absl::StatusCode::kUnavailable, {.kind = "store_failed",
                                                      .message = error.message(),
                                                      .where = ServerFile(),
                                                      .fix = "check space and permissions"});
  }

  const Config config_;
  const std::string token_ = RandomToken();
  std::unique_ptr<Tokens> tokens_;  // null: everybody may call
  Metrics metrics_;
  Admission admission_;
  History history_;
  NegativeCache negative_{cache::SystemNowMs};
  InflightTable inflight_;
  Pool pool_;
  DurableState state_;
  std::unique_ptr<TuningState> tuning_;
  std::unique_ptr<Quotas> quotas_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<WorkerProcesses> workers_;
  std::unique_ptr<RpcRouter> router_;
  ListedService listed_compiler_{"/preheat.v1.Compiler/-"};
  ListedService listed_pool_{"/preheat.v1.Pool/-"};
  std::unique_ptr<CacheService> cache_service_;
  std::unique_ptr<PublicCache> public_cache_;
  std::unique_ptr<PoolService> pool_service_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<HttpServer> http_;
  ByteBudget outgoing_{kOutgoingBytes, "blobs on their way to readers"};
  WorkQueue replies_{kReplyThreads};  // gone before what it replies from
  std::unique_ptr<grpc::Server> pool_server_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0, pool_port_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config) {
  std::error_code error;
  std::filesystem::create_directories(config.data_dir, error);
  if (error) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.kind = "store_failed",
                      .message = absl::StrCat("cannot make the data folder: ", error.message()),
                      .where = config.data_dir,
                      .fix = "give a folder that can be written to --data-dir"});
  }
  auto daemon = std::make_unique<DaemonImpl>(config);
  RETURN_IF_ERROR(daemon->Open());
  return daemon;
}

}  // namespace preheat::server
