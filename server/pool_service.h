#ifndef PREHEAT_SERVER_POOL_SERVICE_H_
#define PREHEAT_SERVER_POOL_SERVICE_H_

#include <functional>
#include <string>

#include "cache/kernel_index.h"
#include "cache/tuning_index.h"
#include "proto/preheat/v1/pool.grpc.pb.h"
#include "server/pool.h"
#include "server/rpc_router.h"

namespace preheat::server {

// The RPC edge of the pool for workers, on a listener of their own. They hand in code that clients will run, so they
// must know the pool's token (metadata "x-preheat-pool-token"), which preheatd gives to the ones it starts.
class PoolService final : public v1::Pool::Service {
 public:
  // `kill` ends a local worker process by the worker's id. All references must outlive the service.
  PoolService(Pool& pool, cache::KernelIndex& kernels, cache::TuningIndex& tuning, std::string token,
              std::function<void(const std::string&)> kill)
      : pool_(pool), kernels_(kernels), tuning_(tuning), token_(std::move(token)), kill_(std::move(kill)) {}

  grpc::Status Work(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::ServerMessage, v1::WorkerMessage>* stream) override;
  grpc::Status LookupKernels(grpc::ServerContext* context, const v1::LookupKernelsRequest* request,
                             v1::LookupKernelsReply* reply) override;
  grpc::Status PublishKernels(grpc::ServerContext* context, const v1::PublishKernelsRequest* request,
                              v1::PublishKernelsReply* reply) override;
  grpc::Status LookupTuning(grpc::ServerContext* context, const v1::LookupTuningRequest* request,
                            v1::LookupTuningReply* reply) override;

 private:
  grpc::Status CheckToken(const grpc::ServerContext& context) const;

  Pool& pool_;
  cache::KernelIndex& kernels_;
  cache::TuningIndex& tuning_;
  const std::string token_;
  const std::function<void(const std::string&)> kill_;
};

// What everybody may ask of the pool: ListWorkers.
void AddPoolMethods(RpcRouter& router, Pool& pool);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_POOL_SERVICE_H_
