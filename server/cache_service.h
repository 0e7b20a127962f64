#ifndef PREHEAT_SERVER_CACHE_SERVICE_H_
#define PREHEAT_SERVER_CACHE_SERVICE_H_

#include "proto/preheat/v1/cache.grpc.pb.h"
#include "server/services.h"

namespace preheat::server {

// The RPC edge of the cache.
class CacheService final : public v1::Cache::Service {
 public:
  explicit CacheService(Services& services) : services_(services) {}

  grpc::Status FindMissing(grpc::ServerContext* context, const v1::FindMissingRequest* request,
                           v1::FindMissingReply* reply) override;
  grpc::Status ReadBlob(grpc::ServerContext* context, const v1::ReadBlobRequest* request,
                        grpc::ServerWriter<v1::BlobChunk>* writer) override;
  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request, v1::ListReply* reply) override;
  grpc::Status Pin(grpc::ServerContext* context, const v1::PinRequest* request, v1::PinReply* reply) override;
  grpc::Status Unpin(grpc::ServerContext* context, const v1::PinRequest* request, v1::PinReply* reply) override;
  grpc::Status Remove(grpc::ServerContext* context, const v1::RemoveRequest* request, v1::RemoveReply* reply) override;
  grpc::Status CollectGarbage(grpc::ServerContext* context, const v1::CollectGarbageRequest* request,
                              v1::CollectGarbageReply* reply) override;
  grpc::Status Export(grpc::ServerContext* context, const v1::ExportRequest* request,
                      grpc::ServerWriter<v1::BlobChunk>* writer) override;
  grpc::Status Import(grpc::ServerContext* context, grpc::ServerReader<v1::BlobChunk>* reader,
                      v1::ImportReply* reply) override;

 private:
  absl::StatusOr<v1::RemoveReply> RemoveAll(const v1::RemoveRequest& request);

  Services& services_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_CACHE_SERVICE_H_
