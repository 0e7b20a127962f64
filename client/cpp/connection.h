#ifndef PREHEAT_CLIENT_CPP_CONNECTION_H_
#define PREHEAT_CLIENT_CPP_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/client.h"
#include "proto/preheat/v1/cache.grpc.pb.h"
#include "proto/preheat/v1/compile.grpc.pb.h"
#include "proto/preheat/v1/pool.grpc.pb.h"

namespace preheat {

// The channel to one server and the rules that every call obeys: one deadline for all attempts, a request id that
// stays the same over them, the token, and another attempt while the server cannot be reached or asks to wait.
// Thread-safe.
class Connection {
 public:
  enum class Socket {
    kShared,  // one for all connections of the process to that server, as gRPC does it
    kOwn,     // for whoever stands for many processes
  };
  explicit Connection(const ClientOptions& options, Socket socket = Socket::kShared);

  v1::Compiler::Stub& compiler() { return *compiler_; }
  v1::Cache::Stub& cache() { return *cache_; }
  v1::Pool::Stub& pool() { return *pool_; }

  // `attempt` makes the call once with a context of its own. It is run again if it came to UNAVAILABLE, a few times, or
  // to a failure that says when to ask again, until the deadline; so whatever it does must bear repeating. All of
  // Preheat's calls do.
  absl::Status Call(const std::function<absl::Status(grpc::ClientContext&)>& attempt);

  // One unary call of a stub's method.
  template <typename Stub, typename Request, typename Reply>
  absl::Status Unary(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request, Reply* reply) {
    return Call([&](grpc::ClientContext& context) {
      reply->Clear();
      return ToStatus((stub.*method)(&context, request, reply));
    });
  }

  absl::Status ToStatus(const grpc::Status& status) const;

  // What Call does to each context, for callers of the stubs' asynchronous side.
  absl::Status Prepare(grpc::ClientContext& context, absl::Time deadline, const std::string& request_id) const;
  static std::string NewRequestId();

 private:
  const ClientOptions options_;
  absl::Status broken_;  // TLS files that cannot be read: every call fails with it
  std::unique_ptr<v1::Compiler::Stub> compiler_;
  std::unique_ptr<v1::Cache::Stub> cache_;
  std::unique_ptr<v1::Pool::Stub> pool_;
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_CONNECTION_H_
