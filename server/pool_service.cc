#include "server/pool_service.h"

#include <openssl/crypto.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

constexpr char kTokenMetadata[] = "x-preheat-pool-token";
constexpr int kMostKernels = 10000;  // in one call

using Stream = grpc::ServerReaderWriter<v1::ServerMessage, v1::WorkerMessage>;

// Sends from a queue by a thread of its own, so that a worker that does not read delays nobody else.
class StreamLink : public WorkerLink {
 public:
  StreamLink(Stream* stream, grpc::ServerContext* context, std::function<void()> kill)
      : stream_(stream), context_(context), kill_(std::move(kill)), writer_([this] { WriteAll(); }) {}

  void Send(v1::ServerMessage message) override {
    std::lock_guard lock(mutex_);
    if (!closed_) queue_.push_back(std::move(message));
    changed_.notify_one();
  }

  void Kill() override {
    kill_();
    std::lock_guard lock(mutex_);
    if (!closed_) context_->TryCancel();
  }

  // Nothing is sent afterwards: the stream is about to go. Called once, by the stream's handler.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_one();
    }
    writer_.join();
  }

 private:
  void WriteAll() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (closed_) return;
      v1::ServerMessage message = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      stream_->Write(message);  // a failure shows as the end of reading
      lock.lock();
    }
  }

  Stream* const stream_;
  grpc::ServerContext* const context_;
  const std::function<void()> kill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::ServerMessage> queue_;  // guarded by mutex_
  bool closed_ = false;                  // guarded by mutex_
  std::thread writer_;                   // last: starts when the rest is there
};

}  // namespace

grpc::Status PoolService::CheckToken(const grpc::ServerContext& context) const {
  auto found = context.client_metadata().find(kTokenMetadata);
  if (found != context.client_metadata().end() && found->second.size() == token_.size() &&
      CRYPTO_memcmp(found->second.data(), token_.data(), token_.size()) == 0) {
    return grpc::Status::OK;
  }
  return ToGrpc(MakeError(absl::StatusCode::kPermissionDenied, {.kind = "not_a_worker",
                                                                .message = "workers must know the pool's token",
                                                                .where = "",
                                                                .fix = "let preheatd start its workers"}));
}

grpc::Status PoolService::Work(grpc::ServerContext* context, Stream* stream) {
  if (grpc::Status status = CheckToken(*context); !status.ok()) return status;
  v1::WorkerMessage message;
  if (!stream->Read(&message) || !message.has_registration()) {
    return ToGrpc(
        MakeError(absl::StatusCode::kInvalidArgument,
                  {.kind = "bad_registration", .message = "a worker registers first", .where = "", .fix = ""}));
  }
  v1::Registration registration = message.registration();
  auto link = std::make_shared<StreamLink>(stream, context, [this, id = registration.worker_id()] { kill_(id); });
  absl::StatusOr<int> worker = pool_.Connect(registration, link);
  if (worker.ok()) {
    spdlog::info("worker {} is there: {} on {}", registration.worker_id(), registration.target(),
                 registration.device());
    while (stream->Read(&message)) pool_.Receive(*worker, std::move(message));
    pool_.Disconnect(*worker);
    spdlog::info("worker {} is gone", registration.worker_id());
  } else {
    spdlog::error("worker {} refused: {}", registration.worker_id(), std::string(worker.status().message()));
  }
  link->Close();
  return ToGrpc(worker.status());
}

grpc::Status PoolService::LookupKernels(grpc::ServerContext* context, const v1::LookupKernelsRequest* request,
                                        v1::LookupKernelsReply* reply) {
  if (grpc::Status status = CheckToken(*context); !status.ok()) return status;
  if (request->kernel_keys_size() > kMostKernels) {
    return ToGrpc(
        MakeError(absl::StatusCode::kInvalidArgument,
                  {.kind = "too_many_kernels", .message = "too many kernels in one call", .where = "", .fix = ""}));
  }
  auto objects = kernels_.Lookup({request->kernel_keys().begin(), request->kernel_keys().end()});
  if (!objects.ok()) return ToGrpc(objects.status());
  for (auto& [key, bytes] : *objects) (*reply->mutable_objects())[key] = std::move(bytes);
  return grpc::Status::OK;
}

grpc::Status PoolService::PublishKernels(grpc::ServerContext* context, const v1::PublishKernelsRequest* request,
                                         v1::PublishKernelsReply*) {
  if (grpc::Status status = CheckToken(*context); !status.ok()) return status;
  return ToGrpc(kernels_.Publish({request->objects().begin(), request->objects().end()}));
}

grpc::Status PoolService::LookupTuning(grpc::ServerContext* context, const v1::LookupTuningRequest* request,
                                       v1::LookupTuningReply* reply) {
  if (grpc::Status status = CheckToken(*context); !status.ok()) return status;
  auto records = tuning_.Lookup({request->tuning_keys().begin(), request->tuning_keys().end()});
  if (!records.ok()) return ToGrpc(records.status());
  for (auto& [key, record] : *records) (*reply->mutable_records())[key] = std::move(record);
  return grpc::Status::OK;
}

void AddPoolMethods(RpcRouter& router, Pool& pool) {
  router.Unary<v1::ListWorkersRequest, v1::ListWorkersReply>(
      "/preheat.v1.Pool/ListWorkers", /*blocking=*/false,
      [&pool](Call&, const v1::ListWorkersRequest&, v1::ListWorkersReply& reply) {
        for (v1::WorkerInfo& worker : pool.Workers()) *reply.add_workers() = std::move(worker);
        return absl::OkStatus();
      });
}

}  // namespace preheat::server
