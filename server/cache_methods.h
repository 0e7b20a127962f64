#ifndef PREHEAT_SERVER_CACHE_METHODS_H_
#define PREHEAT_SERVER_CACHE_METHODS_H_

#include "proto/preheat/v1/cache.grpc.pb.h"
#include "server/cache_service.h"
#include "server/rpc_router.h"
#include "server/services.h"

namespace preheat::server {

// Teaches the router the methods of preheat.v1.Cache, but Export and Import. All must outlive the router's calls.
void AddCacheMethods(RpcRouter& router, Services& services, CacheService& cache);

using RoutedCache = v1::Cache::WithGenericMethod_FindMissing<v1::Cache::WithGenericMethod_ReadBlob<
    v1::Cache::WithGenericMethod_List<v1::Cache::WithGenericMethod_Pin<v1::Cache::WithGenericMethod_Unpin<
        v1::Cache::WithGenericMethod_Remove<v1::Cache::WithGenericMethod_CollectGarbage<v1::Cache::Service>>>>>>>;

// What gRPC registers: Export and Import, which stream for as long as they like, and the name of the service.
class PublicCache final : public RoutedCache {
 public:
  PublicCache(RpcRouter& router, CacheService& cache) : router_(router), cache_(cache) {}

  grpc::Status Export(grpc::ServerContext* context, const v1::ExportRequest* request,
                      grpc::ServerWriter<v1::BlobChunk>* writer) override;
  grpc::Status Import(grpc::ServerContext* context, grpc::ServerReader<v1::BlobChunk>* reader,
                      v1::ImportReply* reply) override;

 private:
  grpc::Status Authorize(const grpc::ServerContext& context, RpcRouter::Access access) const;

  RpcRouter& router_;
  CacheService& cache_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_CACHE_METHODS_H_
