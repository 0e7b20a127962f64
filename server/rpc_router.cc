#include "server/rpc_router.h"

#include <grpcpp/support/proto_buffer_writer.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"
#include "compiler/support/status_macros.h"
#include "server/happens_before.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

constexpr size_t kLongestRequestId = 64;
constexpr size_t kLargeMessage = size_t{16} << 20;
constexpr int64_t kSmallMessage = int64_t{16} << 10;  // in memory: not worth counting
constexpr int kWriterBlock = 1 << 20;
constexpr std::chrono::seconds kRetryBlocking{1};

absl::string_view Metadata(const grpc::GenericCallbackServerContext& context, const char* name) {
  auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

std::string RequestId(const grpc::GenericCallbackServerContext& context) {
  std::string id(Metadata(context, "x-preheat-request-id").substr(0, kLongestRequestId));
  if (id.empty()) return "-";
  std::replace_if(
      id.begin(), id.end(), [](unsigned char c) { return !isgraph(c); }, '?');
  return id;
}

absl::Status UnknownMethod(const std::string& method) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "unknown_method",
                    .message = "this server has no such method",
                    .where = method.substr(0, 200),
                    .fix = "give client and server versions that are at most one apart"});
}

absl::Status NoMessage() {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "malformed_message",
                                                        .message = "the call has no message",
                                                        .where = "",
                                                        .fix = "send one message of the type that the method takes"});
}

absl::Status TooManyCalls(int max) {
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted,
                                  {.kind = "too_many_calls",
                                   .message = absl::StrCat(max, " calls of this kind are running already"),
                                   .where = "",
                                   .fix = "ask again a moment later"}),
                        kRetryBlocking);
}

}  // namespace

// gRPC's side of a call. gRPC may still need it when the handler has let go of it and the other way round, so it
// holds itself until gRPC is done.
class RpcRouter::Reactor : public grpc::ServerGenericBidiReactor, public Call {
 public:
  Reactor(grpc::GenericCallbackServerContext* context, const Method* method)
      : method_(method), request_id_(RequestId(*context)) {}

  // Called when the caller holds a reference: nothing happens to it before. Who may not call is told so before a byte
  // of the message is taken.
  void Start(std::shared_ptr<Reactor> self, const RpcRouter& router,
             const grpc::GenericCallbackServerContext& context) {
    self_ = std::move(self);
    HappensBefore(this);
    const Access access = method_ == nullptr ? Access::kUser : method_->access;
    absl::StatusOr<Identity> identity = router.Authorize(Metadata(context, "authorization"), access);
    if (!identity.ok()) return Finish(identity.status());
    identity_ = *std::move(identity);
    if (method_ == nullptr) return Finish(UnknownMethod(context.method()));
    HappensBefore(this);
    StartRead(&received_);
  }

  const std::string& request_id() const override { return request_id_; }
  const Identity& identity() const override { return identity_; }
  bool cancelled() const override { return cancelled_; }
  std::shared_ptr<void> TakeRoom() override { return std::move(room_); }
  void KeepRoom(std::shared_ptr<void> room) { room_ = std::move(room); }

  void OnCancel(std::function<void()> tell) override {
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;  // what `tell` holds may hold this call
      if (!cancelled_) {
        tell_ = std::move(tell);
        return;
      }
    }
    tell();
  }

  void Send(const google::protobuf::Message& message, std::shared_ptr<void> held) override {
    grpc::ByteBuffer bytes;
    {
      grpc::ProtoBufferWriter writer(&bytes, kWriterBlock, static_cast<int>(message.ByteSizeLong()));
      message.SerializeToZeroCopyStream(&writer);
    }
    Send(std::move(bytes), std::move(held));
  }

  void Send(grpc::ByteBuffer message, std::shared_ptr<void> held) override {
    std::lock_guard lock(mutex_);
    if (finished_ || cancelled_) return;
    queue_.push_back({std::move(message), std::move(held)});
    if (queue_.size() == 1) StartWrite(&queue_.front().bytes);
  }

  void Finish(const absl::Status& status) override {
    std::function<void()> released;  // what it holds goes without the lock
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    status_ = ToGrpc(status);
    released.swap(tell_);
    if (queue_.empty()) ServerBidiReactor::Finish(status_);
  }

 private:
  struct Outgoing {
    grpc::ByteBuffer bytes;
    std::shared_ptr<void> held;
  };

  void OnReadDone(bool ok) override {
    Reaction reaction(this);
    if (!ok) return Finish(NoMessage());
    grpc::ByteBuffer bytes = std::move(received_);
    received_.Clear();
    large_ = bytes.Length() >= kLargeMessage;
    method_->serve(self_, bytes);
  }

  void OnWriteDone(bool ok) override {
    Reaction reaction(this);
    std::lock_guard lock(mutex_);
    queue_.pop_front();
    if (!ok) queue_.clear();  // nobody reads any more
    if (!queue_.empty()) return StartWrite(&queue_.front().bytes);
    if (finished_) ServerBidiReactor::Finish(status_);
  }

  void OnCancel() override {
    Reaction reaction(this);
    std::function<void()> tell;
    {
      std::lock_guard lock(mutex_);
      cancelled_ = true;
      tell.swap(tell_);
    }
    if (tell) tell();
  }

  void OnDone() override {
    HappensAfter(this);  // and does not exist any more at the end
    const bool large = large_;
    self_.reset();
    if (large) malloc_trim(0);  // glibc keeps what a burst of large messages took
  }

  const Method* const method_;
  const std::string request_id_;
  Identity identity_;
  grpc::ByteBuffer received_;
  std::shared_ptr<void> room_;  // of the thread that serves
  bool large_ = false;
  std::shared_ptr<Reactor> self_;  // until OnDone
  std::atomic<bool> cancelled_{false};

  std::mutex mutex_;
  // All guarded by mutex_.
  std::deque<Outgoing> queue_;  // the first one is being written
  std::function<void()> tell_;
  grpc::Status status_;
  bool finished_ = false;
};

RpcRouter::~RpcRouter() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return blocking_ == 0; });
}

absl::StatusOr<Identity> RpcRouter::Authorize(absl::string_view authorization, Access access) const {
  if (!options_.authorize) return Identity{.name = "", .name_space = "", .admin = true};
  ASSIGN_OR_RETURN(Identity identity, options_.authorize(authorization));
  if (access == Access::kAdmin && !identity.admin) {
    return MakeError(absl::StatusCode::kPermissionDenied,
                     {.kind = "admin_only",
                      .message = absl::StrCat(identity.name, " is no admin of this server"),
                      .where = "",
                      .fix = "use the token of an admin"});
  }
  return identity;
}

void RpcRouter::Add(std::string name, Method method) {
  methods_[std::move(name)] = std::move(method);
  HappensBefore(this);
}

grpc::ServerGenericBidiReactor* RpcRouter::CreateReactor(grpc::GenericCallbackServerContext* context) {
  HappensAfter(this);  // of all that stood when the server was started
  auto found = methods_.find(context->method());
  auto reactor = std::make_shared<Reactor>(context, found == methods_.end() ? nullptr : &found->second);
  reactor->Start(reactor, *this, *context);
  return reactor.get();
}

absl::StatusOr<std::shared_ptr<void>> RpcRouter::Parse(const grpc::ByteBuffer& bytes,
                                                       google::protobuf::Message* message) {
  ASSIGN_OR_RETURN(const int64_t needed, MeasureMessage(bytes, options_.max_message_memory, *message));
  std::shared_ptr<void> room;
  if (needed > kSmallMessage) {
    ASSIGN_OR_RETURN(room, messages_.Enter(needed));
  }
  RETURN_IF_ERROR(ParseMeasured(bytes, message));
  return room;
}

void RpcRouter::KeepRoom(Call& call, std::shared_ptr<void> room) {
  static_cast<Reactor&>(call).KeepRoom(std::move(room));
}

void RpcRouter::RunBlocking(const std::shared_ptr<Call>& call, std::function<void()> work) {
  bool full = false;
  {
    std::lock_guard lock(mutex_);
    full = blocking_ >= options_.max_blocking;
    if (!full) ++blocking_;
  }
  if (full) return call->Finish(TooManyCalls(options_.max_blocking));
  std::thread([this, work = std::move(work)]() mutable {
    work();
    work = nullptr;  // and what it holds, before the router may go
    std::lock_guard lock(mutex_);
    --blocking_;
    idle_.notify_all();
  }).detach();
}

}  // namespace preheat::server
