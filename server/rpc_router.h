#ifndef PREHEAT_SERVER_RPC_ROUTER_H_
#define PREHEAT_SERVER_RPC_ROUTER_H_

#include <grpcpp/generic/async_generic_service.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/byte_budget.h"
#include "server/identity.h"
#include "server/rpc/parse_message.h"

namespace preheat::server {

// One call in progress, as its handler sees it. Safe from several threads at once.
class Call {
 public:
  virtual ~Call() = default;

  // What the client calls this request, made safe to log; "-" when it says nothing.
  virtual const std::string& request_id() const = 0;
  virtual const Identity& identity() const = 0;
  // The caller went away, or its deadline has passed.
  virtual bool cancelled() const = 0;
  // Called once when that happens, at once if it has; not any more once the call was finished.
  virtual void OnCancel(std::function<void()> tell) = 0;
  // Messages leave in order; none is awaited. `held` is let go of when the message has left.
  virtual void Send(const google::protobuf::Message& message, std::shared_ptr<void> held = nullptr) = 0;
  virtual void Send(grpc::ByteBuffer message, std::shared_ptr<void> held = nullptr) = 0;
  // Its message's place among those in memory, which is free again at the call's end: who keeps the message for longer,
  // or lets go of it sooner, takes it. May be null.
  virtual std::shared_ptr<void> TakeRoom() = 0;
  // The last thing done, exactly once; a status that is not OK travels with its whole Error.
  virtual void Finish(const absl::Status& status) = 0;
};

// Says who calls, from the metadata "authorization" ("" when there is none).
using AuthorizeFn = std::function<absl::StatusOr<Identity>(absl::string_view authorization)>;

struct RouterOptions {
  AuthorizeFn authorize;                             // empty: everybody may do everything
  int64_t max_message_memory = int64_t{160} << 20;   // of one parsed message
  int64_t max_messages_memory = int64_t{160} << 20;  // of all, or one of any size
  int max_blocking = 64;                             // calls that hold a thread
};

// The edge where strangers' bytes come in: every method of the public services, by name. A message is parsed within
// bounds, what fails is answered with a typed error, and no handler is asked before that. Methods that take their time
// (they ask a worker, walk the store) run on threads of their own, of which there are only so many.
class RpcRouter : public grpc::CallbackGenericService {
 public:
  explicit RpcRouter(RouterOptions options)
      : options_(options), messages_(options.max_messages_memory, "messages in memory") {}
  // REQUIRES: the gRPC server that it is registered with has been shut down.
  ~RpcRouter() override;

  enum class Access { kUser, kAdmin };

  // A method that answers with one message. `handle` is quick, or `blocking`.
  template <typename Request, typename Reply>
  void Unary(std::string method, bool blocking, std::function<absl::Status(Call&, const Request&, Reply&)> handle,
             Access access = Access::kUser) {
    auto serve = [handle = std::move(handle)](std::shared_ptr<Call> call, Request request) {
      Reply reply;
      absl::Status status = handle(*call, request, reply);
      if (status.ok()) call->Send(reply);
      call->Finish(status);
    };
    Stream<Request>(std::move(method), blocking, std::move(serve), access);
  }

  // A method that answers with any number of messages, now or later.
  template <typename Request>
  void Stream(std::string method, bool blocking, std::function<void(std::shared_ptr<Call>, Request)> handle,
              Access access = Access::kUser) {
    auto serve = [this, blocking, handle = std::move(handle)](std::shared_ptr<Call> call,
                                                              const grpc::ByteBuffer& bytes) {
      auto request = std::make_shared<Request>();
      absl::StatusOr<std::shared_ptr<void>> room = Parse(bytes, request.get());
      if (!room.ok()) return call->Finish(room.status());
      KeepRoom(*call, *std::move(room));
      if (!blocking) return handle(std::move(call), std::move(*request));
      RunBlocking(call, [call, handle, request] { handle(call, std::move(*request)); });
    };
    Add(std::move(method), {access, std::move(serve)});
  }

  // Whether who shows this may do that: UNAUTHENTICATED, or PERMISSION_DENIED "admin_only".
  absl::StatusOr<Identity> Authorize(absl::string_view authorization, Access access) const;

  // Runs it on a thread of its own, or finishes the call with RESOURCE_EXHAUSTED "too_many_calls".
  void RunBlocking(const std::shared_ptr<Call>& call, std::function<void()> work);

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  class Reactor;
  // Returns what holds its place among the messages in memory. Errors of ParseMessage, and RESOURCE_EXHAUSTED
  // "too_many_bytes".
  absl::StatusOr<std::shared_ptr<void>> Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);
  static void KeepRoom(Call& call, std::shared_ptr<void> room);
  struct Method {
    Access access = Access::kUser;
    std::function<void(std::shared_ptr<Call>, const grpc::ByteBuffer&)> serve;
  };
  void Add(std::string name, Method method);

  const RouterOptions options_;
  ByteBudget messages_;
  std::map<std::string, Method, std::less<>> methods_;  // not changed once the server runs
  std::mutex mutex_;
  std::condition_variable idle_;
  int blocking_ = 0;  // guarded by mutex_
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_RPC_ROUTER_H_
