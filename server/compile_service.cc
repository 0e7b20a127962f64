#include "server/compile_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/compile_request.h"
#include "server/find_artifact.h"
#include "server/log.h"
#include "server/rpc/error_proto.h"
#include "server/verification.h"

namespace preheat::server {
namespace {

constexpr int kMostKeys = 10000;
constexpr int64_t kMostLocalHits = 1000000;  // of one key in one report

// From the caller's metadata, made safe to log.
std::string RequestId(const grpc::ServerContext& context) {
  auto found = context.client_metadata().find("x-preheat-request-id");
  if (found == context.client_metadata().end()) return "-";
  std::string id(found->second.data(), std::min<size_t>(found->second.size(), 64));
  std::replace_if(
      id.begin(), id.end(), [](unsigned char c) { return !isgraph(c); }, '?');
  return id;
}

Caller SilentCaller(grpc::ServerContext* context) {
  return {[](const v1::Progress&) {}, [context] { return context->IsCancelled(); }};
}

void LogRequest(const v1::CompileRequest& request, const std::string& request_id, const std::string& label,
                const absl::StatusOr<v1::CompileResult>& result, double seconds) {
  if (result.ok()) {
    const v1::Manifest& manifest = result->manifest();
    return LogEvent(spdlog::level::info, "request",
                    {{"request_id", request_id},
                     {"result", label},
                     {"name", request.name()},
                     {"key", result->key()},
                     {"generation", static_cast<int64_t>(manifest.generation())},
                     {"target", manifest.target()},
                     {"namespace", request.name_space()},
                     {"job", request.job_id()},
                     {"seconds", seconds}});
  }
  const Error error = GetError(result.status());
  LogEvent(spdlog::level::info, "request",
           {{"request_id", request_id},
            {"result", label},
            {"name", request.name()},
            {"code", CodeName(result.status().code())},
            {"kind", error.kind},
            {"error", error.message},
            {"where", error.where},
            {"namespace", request.name_space()},
            {"job", request.job_id()},
            {"seconds", seconds}});
}

absl::StatusOr<v1::ExplainReply> ExplainKey(Services& services, const std::string& key) {
  ASSIGN_OR_RETURN(v1::GenerationRecord record, FindArtifact(services.index, key, 0));
  ASSIGN_OR_RETURN(std::string bytes, services.index.blobs().Read(record.manifest().report().digest()));
  v1::ExplainReply reply;
  reply.set_key(key);
  *reply.mutable_seconds() = record.manifest().seconds();
  reply.mutable_seconds()->set_verify(record.manifest().evidence().seconds());
  if (!reply.mutable_report()->ParseFromString(bytes)) {
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                   .message = "the report cannot be read",
                                                   .where = key,
                                                   .fix = "`compilectl rm` lets it be compiled anew"});
  }
  return reply;
}

absl::StatusOr<v1::WhyMissReply> ExplainMiss(Services& services, const v1::CompileRequest& request,
                                             const Caller& caller) {
  ASSIGN_OR_RETURN(Outcome outcome, CompileRequest(services, request, caller).FindKey());
  v1::WhyMissReply reply;
  reply.set_key(outcome.key);
  reply.set_hit(outcome.result == v1::HIT);
  if (reply.hit()) reply.set_nearest_key(outcome.key);
  if (reply.hit()) return reply;
  ASSIGN_OR_RETURN(auto nearest, services.index.FindNearest(outcome.key_fields));
  if (!nearest) return reply;
  reply.set_nearest_key(nearest->key);
  for (v1::KeyDifference& difference : nearest->differences) *reply.add_differences() = std::move(difference);
  return reply;
}

}  // namespace

absl::StatusOr<v1::CompileResult> CompileService::RunCounted(const v1::CompileRequest& request,
                                                             const std::string& request_id, const Caller& caller) {
  auto start = std::chrono::steady_clock::now();
  CompileRequest story(services_, request, caller);
  absl::StatusOr<v1::CompileResult> result = story.Run();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string& label = story.result_label();
  if (label != "missing") {
    services_.metrics.CountRequest(request.name_space().empty() ? "default" : request.name_space(), label, "server");
    services_.metrics.ObserveRequest(label, seconds);
  }
  LogRequest(request, request_id, label, result, seconds);
  return result;
}

grpc::Status CompileService::Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                                     grpc::ServerWriter<v1::CompileEvent>* writer) {
  v1::CompileEvent event;
  Caller caller;
  caller.cancelled = [context] { return context->IsCancelled(); };
  caller.progress = [&](const v1::Progress& progress) {
    *event.mutable_progress() = progress;
    writer->Write(event);
  };
  absl::StatusOr<v1::CompileResult> result = RunCounted(*request, RequestId(*context), caller);
  if (result.ok()) {
    *event.mutable_done() = *std::move(result);
  } else {
    *event.mutable_error() = ToProto(result.status());
  }
  writer->Write(event);
  return grpc::Status::OK;
}

grpc::Status CompileService::Lookup(grpc::ServerContext*, const v1::LookupRequest* request, v1::LookupReply* reply) {
  if (request->keys_size() > kMostKeys) {
    return ToGrpc(MakeError(absl::StatusCode::kInvalidArgument,
                            {.kind = "invalid_request", .message = "too many keys", .where = "keys", .fix = ""}));
  }
  for (const std::string& key : request->keys()) {
    uint32_t generation = request->generation();
    if (generation == 0 && !request->job_id().empty()) {
      auto pinned = services_.index.pins().Find(key, request->job_id());
      if (!pinned.ok()) return ToGrpc(pinned.status());
      generation = pinned->value_or(0);
    }
    auto record = services_.index.Lookup(key, generation);
    if (!record.ok()) return ToGrpc(record.status());
    v1::Manifest* manifest = reply->add_manifests();
    if (!*record) continue;
    services_.index.uses().Record(key, 0);
    *manifest = std::move(*(*record)->mutable_manifest());
  }
  return grpc::Status::OK;
}

grpc::Status CompileService::Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                                     v1::ExplainReply* reply) {
  std::string key = request->key();
  if (key.empty()) {
    auto compiled = RunCounted(request->request(), RequestId(*context), SilentCaller(context));
    if (!compiled.ok()) return ToGrpc(compiled.status());
    key = compiled->key();
  }
  auto explained = ExplainKey(services_, key);
  if (explained.ok()) *reply = *std::move(explained);
  return ToGrpc(explained.status());
}

grpc::Status CompileService::Verify(grpc::ServerContext* context, const v1::VerifyRequest* request,
                                    v1::VerifyReply* reply) {
  auto verified = server::Verify(services_, *request, SilentCaller(context));
  if (verified.ok()) *reply = *std::move(verified);
  return ToGrpc(verified.status());
}

grpc::Status CompileService::WhyMiss(grpc::ServerContext* context, const v1::CompileRequest* request,
                                     v1::WhyMissReply* reply) {
  auto explained = ExplainMiss(services_, *request, SilentCaller(context));
  if (explained.ok()) *reply = *std::move(explained);
  return ToGrpc(explained.status());
}

grpc::Status CompileService::Stats(grpc::ServerContext*, const v1::StatsRequest*, v1::StatsReply* reply) {
  auto totals = services_.index.Count();
  if (!totals.ok()) return ToGrpc(totals.status());
  *reply = services_.metrics.Stats();
  reply->set_entries(totals->entries);
  reply->set_bytes(totals->bytes);
  reply->set_inflight(static_cast<int64_t>(services_.inflight.size()));
  reply->set_queue_depth(static_cast<int64_t>(services_.pool.Count().queued));
  return grpc::Status::OK;
}

grpc::Status CompileService::ReportLocalHits(grpc::ServerContext*, const v1::LocalHits* request, v1::LocalHitsReply*) {
  std::string name_space = request->name_space().empty() ? "default" : request->name_space();
  for (const auto& [key, reported] : request->hits()) {
    auto record = services_.index.Lookup(key, 0);
    if (!record.ok()) return ToGrpc(record.status());
    if (!*record) continue;  // of another server, or evicted since
    int64_t count = std::clamp<int64_t>(reported, 0, kMostLocalHits);
    const v1::StageSeconds& seconds = (*record)->manifest().seconds();
    services_.metrics.CountRequest(name_space, "hit", "local", count);
    services_.metrics.CountSaved(
        name_space, request->job_id(), key,
        seconds.import() + seconds.passes() + seconds.codegen() + seconds.compile() + seconds.tune());
    services_.index.uses().Record(key, count);
  }
  return grpc::Status::OK;
}

}  // namespace preheat::server
