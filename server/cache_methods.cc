#include "server/cache_methods.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

// A method of the service that needs nothing of gRPC but its message.
template <typename Request, typename Reply>
void AddUnary(RpcRouter& router, const char* name, CacheService& cache,
              grpc::Status (CacheService::*method)(grpc::ServerContext*, const Request*, Reply*),
              RpcRouter::Access access = RpcRouter::Access::kUser) {
  router.Unary<Request, Reply>(
      absl::StrCat("/preheat.v1.Cache/", name), /*blocking=*/true,
      [&cache, method](Call&, const Request& request, Reply& reply) {
        return FromGrpc((cache.*method)(nullptr, &request, &reply));
      },
      access);
}

// Bytes that leave in chunks without being copied: each chunk's slice keeps them.
struct Outgoing {
  std::string bytes;
  std::shared_ptr<void> room;
};

grpc::Slice SliceOf(const std::shared_ptr<const Outgoing>& whole, size_t at, size_t size) {
  auto* held = new std::shared_ptr<const Outgoing>(whole);
  return grpc::Slice(
      const_cast<char*>(whole->bytes.data()) + at, size,
      [](void* user) { delete static_cast<std::shared_ptr<const Outgoing>*>(user); }, held);
}

// A BlobChunk as it is on the wire: the tag of `data`, its length, the bytes themselves.
grpc::ByteBuffer Chunk(const std::shared_ptr<const Outgoing>& whole, size_t at, size_t size) {
  std::string head(1, static_cast<char>(v1::BlobChunk::kDataFieldNumber << 3 | 2));
  for (size_t left = size; true; left >>= 7) {
    head += static_cast<char>((left & 127) | (left > 127 ? 128 : 0));
    if (left <= 127) break;
  }
  const grpc::Slice slices[] = {grpc::Slice(head), SliceOf(whole, at, size)};
  return {slices, 2};
}

void ReadBlob(Services& services, Call& call, const v1::ReadBlobRequest& request) {
  absl::StatusOr<std::string> bytes = services.index.blobs().Read(request.digest());
  if (!bytes.ok()) return call.Finish(bytes.status());
  if (request.offset() < 0 || request.offset() > static_cast<int64_t>(bytes->size())) {
    return call.Finish(MakeError(absl::StatusCode::kInvalidArgument,
                                 {.kind = "invalid_request",
                                  .message = absl::StrCat("the blob has ", bytes->size(), " bytes"),
                                  .where = "offset",
                                  .fix = "start within the blob"}));
  }
  absl::StatusOr<std::shared_ptr<void>> room = services.outgoing.Enter(static_cast<int64_t>(bytes->size()));
  if (!room.ok()) return call.Finish(room.status());
  auto whole = std::make_shared<const Outgoing>(Outgoing{*std::move(bytes), *std::move(room)});
  for (auto at = static_cast<size_t>(request.offset()); at < whole->bytes.size(); at += kChunkBytes) {
    call.Send(Chunk(whole, at, std::min(kChunkBytes, whole->bytes.size() - at)));
  }
  call.Finish(absl::OkStatus());
}

}  // namespace

void AddCacheMethods(RpcRouter& router, Services& services, CacheService& cache) {
  AddUnary(router, "FindMissing", cache, &CacheService::FindMissing);
  AddUnary(router, "List", cache, &CacheService::List);
  AddUnary(router, "Pin", cache, &CacheService::Pin);
  AddUnary(router, "Unpin", cache, &CacheService::Unpin);
  AddUnary(router, "Remove", cache, &CacheService::Remove, RpcRouter::Access::kAdmin);
  AddUnary(router, "CollectGarbage", cache, &CacheService::CollectGarbage, RpcRouter::Access::kAdmin);
  router.Stream<v1::ReadBlobRequest>(
      "/preheat.v1.Cache/ReadBlob", /*blocking=*/false,
      [&services](std::shared_ptr<Call> call, v1::ReadBlobRequest request) { ReadBlob(services, *call, request); });
}

grpc::Status PublicCache::Authorize(const grpc::ServerContext& context, RpcRouter::Access access) const {
  auto found = context.client_metadata().find("authorization");
  absl::string_view authorization;
  if (found != context.client_metadata().end()) authorization = {found->second.data(), found->second.size()};
  return ToGrpc(router_.Authorize(authorization, access).status());
}

grpc::Status PublicCache::Export(grpc::ServerContext* context, const v1::ExportRequest* request,
                                 grpc::ServerWriter<v1::BlobChunk>* writer) {
  if (grpc::Status status = Authorize(*context, RpcRouter::Access::kUser); !status.ok()) return status;
  return cache_.Export(context, request, writer);
}

grpc::Status PublicCache::Import(grpc::ServerContext* context, grpc::ServerReader<v1::BlobChunk>* reader,
                                 v1::ImportReply* reply) {
  if (grpc::Status status = Authorize(*context, RpcRouter::Access::kAdmin); !status.ok()) return status;
  return cache_.Import(context, reader, reply);
}

}  // namespace preheat::server
