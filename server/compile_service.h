#ifndef PREHEAT_SERVER_COMPILE_SERVICE_H_
#define PREHEAT_SERVER_COMPILE_SERVICE_H_

#include "proto/preheat/v1/compile.grpc.pb.h"
#include "server/services.h"

namespace preheat::server {

// The RPC edge of compiling: turns statuses into the wire's errors, counts and logs, and leaves the work to
// compile_request and its like. Logs repeat the request id of the metadata "x-preheat-request-id".
class CompileService final : public v1::Compiler::Service {
 public:
  explicit CompileService(Services& services) : services_(services) {}

  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                       grpc::ServerWriter<v1::CompileEvent>* writer) override;
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request, v1::LookupReply* reply) override;
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainReply* reply) override;
  grpc::Status Verify(grpc::ServerContext* context, const v1::VerifyRequest* request, v1::VerifyReply* reply) override;
  grpc::Status WhyMiss(grpc::ServerContext* context, const v1::CompileRequest* request,
                       v1::WhyMissReply* reply) override;
  grpc::Status Stats(grpc::ServerContext* context, const v1::StatsRequest* request, v1::StatsReply* reply) override;
  grpc::Status ReportLocalHits(grpc::ServerContext* context, const v1::LocalHits* request,
                               v1::LocalHitsReply* reply) override;

 private:
  // Runs a compile request, counts it and logs it.
  absl::StatusOr<v1::CompileResult> RunCounted(const v1::CompileRequest& request, const std::string& request_id,
                                               const Caller& caller);

  Services& services_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COMPILE_SERVICE_H_
