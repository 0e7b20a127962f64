#ifndef PREHEAT_SERVER_REFLECTED_SERVICES_H_
#define PREHEAT_SERVER_REFLECTED_SERVICES_H_

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/method_handler.h>

namespace preheat::server {

// A service whose methods the router answers, for reflection's list: gRPC lists only services of which it knows a
// method, so this has one that nobody means and that is answered UNIMPLEMENTED before anything of the call is read.
class ListedService : public grpc::Service {
 public:
  // `method`: "/preheat.v1.Compiler/-"; it must outlive the service.
  explicit ListedService(const char* method) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        method, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::UnknownMethodHandler("this server has no such method")));
  }
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_REFLECTED_SERVICES_H_
