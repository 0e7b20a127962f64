#include "server/cache_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cache/archive.h"
#include "cache/clock.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/find_artifact.h"
#include "server/import_archive.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr int64_t kLongestAgeSeconds = int64_t{100} * 365 * 24 * 3600;
constexpr size_t kLongestJob = 256;
constexpr int kMostDigests = 100000;

absl::Status Invalid(std::string message, std::string where, std::string fix = "") {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "invalid_request", .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

absl::Status CheckJob(const std::string& job) {
  if (!job.empty() && job.size() <= kLongestJob) return absl::OkStatus();
  return Invalid("a pin belongs to a job: 1 to 256 bytes of id", "job_id", "set PREHEAT_JOB_ID");
}

absl::Status PinGeneration(cache::ArtifactIndex& index, const v1::PinRequest& request) {
  RETURN_IF_ERROR(CheckJob(request.job_id()));
  ASSIGN_OR_RETURN(v1::GenerationRecord record, FindArtifact(index, request.key(), request.generation()));
  return index.pins().Pin(request.key(), request.job_id(), record.manifest().generation());
}

}  // namespace

grpc::Status CacheService::FindMissing(grpc::ServerContext*, const v1::FindMissingRequest* request,
                                       v1::FindMissingReply* reply) {
  if (request->digests_size() > kMostDigests) return ToGrpc(Invalid("too many digests", "digests"));
  auto missing = services_.index.blobs().FindMissing({request->digests().begin(), request->digests().end()});
  if (!missing.ok()) return ToGrpc(missing.status());
  for (std::string& digest : *missing) reply->add_missing(std::move(digest));
  return grpc::Status::OK;
}

grpc::Status CacheService::ReadBlob(grpc::ServerContext*, const v1::ReadBlobRequest* request,
                                    grpc::ServerWriter<v1::BlobChunk>* writer) {
  auto bytes = services_.index.blobs().Read(request->digest());
  if (!bytes.ok()) return ToGrpc(bytes.status());
  if (request->offset() < 0 || request->offset() > static_cast<int64_t>(bytes->size())) {
    return ToGrpc(Invalid("the offset is beyond the end of the blob", "offset"));
  }
  v1::BlobChunk chunk;
  for (size_t at = static_cast<size_t>(request->offset()); at < bytes->size(); at += kChunkBytes) {
    chunk.set_data(bytes->substr(at, kChunkBytes));
    if (!writer->Write(chunk)) break;  // the reader is gone
  }
  return grpc::Status::OK;
}

grpc::Status CacheService::List(grpc::ServerContext*, const v1::ListRequest* request, v1::ListReply* reply) {
  auto entries = services_.index.List(request->key_prefix());
  if (!entries.ok()) return ToGrpc(entries.status());
  for (v1::Entry& entry : *entries) *reply->add_entries() = std::move(entry);
  return grpc::Status::OK;
}

grpc::Status CacheService::Pin(grpc::ServerContext*, const v1::PinRequest* request, v1::PinReply*) {
  return ToGrpc(PinGeneration(services_.index, *request));
}

grpc::Status CacheService::Unpin(grpc::ServerContext*, const v1::PinRequest* request, v1::PinReply*) {
  if (absl::Status status = CheckJob(request->job_id()); !status.ok()) return ToGrpc(status);
  return ToGrpc(services_.index.pins().Unpin(request->key(), request->job_id()));
}

absl::StatusOr<v1::RemoveReply> CacheService::RemoveAll(const v1::RemoveRequest& request) {
  if (request.key().empty() && request.older_than_seconds() <= 0 && request.target().empty()) {
    return Invalid("nothing says what to remove", "key", "give a key, an age or a target");
  }
  v1::RemoveReply reply;
  ASSIGN_OR_RETURN(std::vector<v1::Entry> entries, services_.index.List(request.key()));
  int64_t before_ms =
      cache::SystemNowMs() - std::clamp<int64_t>(request.older_than_seconds(), 0, kLongestAgeSeconds) * 1000;
  for (const v1::Entry& entry : entries) {
    bool named = !request.key().empty();
    if (named && entry.key() != request.key()) continue;
    if (!named && request.older_than_seconds() > 0 && entry.last_used_unix_ms() >= before_ms) continue;
    if (!named && !request.target().empty() && entry.target() != request.target()) continue;
    if (!named && entry.pinned()) continue;
    ASSIGN_OR_RETURN(bool removed, services_.index.Remove(entry.key()));
    if (!removed) continue;
    reply.set_entries(reply.entries() + 1);
    reply.set_bytes(reply.bytes() + entry.bytes());
  }
  if (!request.key().empty() && reply.entries() == 0) {
    RETURN_IF_ERROR(FindArtifact(services_.index, request.key(), 0).status());
  }
  services_.metrics.CountEvicted(reply.bytes());
  return reply;
}

grpc::Status CacheService::Remove(grpc::ServerContext*, const v1::RemoveRequest* request, v1::RemoveReply* reply) {
  auto removed = RemoveAll(*request);
  if (removed.ok()) *reply = *removed;
  return ToGrpc(removed.status());
}

grpc::Status CacheService::CollectGarbage(grpc::ServerContext*, const v1::CollectGarbageRequest* request,
                                          v1::CollectGarbageReply* reply) {
  auto swept = server::CollectGarbage(services_.index, services_.metrics, services_.garbage, request->dry_run());
  if (!swept.ok()) return ToGrpc(swept.status());
  reply->set_blobs(swept->blobs);
  reply->set_bytes(swept->bytes);
  return grpc::Status::OK;
}

grpc::Status CacheService::Export(grpc::ServerContext* context, const v1::ExportRequest* request,
                                  grpc::ServerWriter<v1::BlobChunk>* writer) {
  v1::BlobChunk chunk;
  return ToGrpc(cache::WriteArchive(services_.index, {request->keys().begin(), request->keys().end()},
                                    [&](absl::string_view bytes) {
                                      chunk.set_data(bytes.data(), bytes.size());
                                      bool gone = !writer->Write(chunk) || context->IsCancelled();
                                      return gone ? absl::CancelledError("the reader is gone") : absl::OkStatus();
                                    }));
}

grpc::Status CacheService::Import(grpc::ServerContext* context, grpc::ServerReader<v1::BlobChunk>* reader,
                                  v1::ImportReply* reply) {
  auto imported = ImportArchive(services_.index, services_.spool_folder, [&]() -> std::optional<std::string> {
    v1::BlobChunk chunk;
    if (!reader->Read(&chunk)) return std::nullopt;
    return std::move(*chunk.mutable_data());
  });
  if (context->IsCancelled()) return ToGrpc(absl::CancelledError("the caller went away"));
  if (!imported.ok()) return ToGrpc(imported.status());
  reply->set_entries(imported->generations);
  reply->set_blobs(imported->blobs);
  return grpc::Status::OK;
}

}  // namespace preheat::server
