#include "server/compile_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/compile_call.h"
#include "server/compile_request.h"
#include "server/find_artifact.h"
#include "server/verification.h"

namespace preheat::server {
namespace {

constexpr int kMostKeys = 10000;
constexpr int64_t kMostLocalHits = 1000000;  // of one key in one report

Caller SilentCaller(const Call& call) {
  return {[](const v1::Progress&) {}, [&call] { return call.cancelled(); }};
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
  ASSIGN_OR_RETURN(Outcome outcome, CompileRequest(services, request).FindKey(caller));
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

absl::Status Lookup(Services& services, const v1::LookupRequest& request, v1::LookupReply& reply) {
  if (request.keys_size() > kMostKeys) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "invalid_request",
                      .message = absl::StrCat(request.keys_size(), " keys in one call, ", kMostKeys, " are allowed"),
                      .where = "keys",
                      .fix = "ask in several calls"});
  }
  for (const std::string& key : request.keys()) {
    uint32_t generation = request.generation();
    if (generation == 0 && !request.job_id().empty()) {
      ASSIGN_OR_RETURN(std::optional<uint32_t> pinned, services.index.pins().Find(key, request.job_id()));
      generation = pinned.value_or(0);
    }
    ASSIGN_OR_RETURN(std::optional<v1::GenerationRecord> record, services.index.Lookup(key, generation));
    v1::Manifest* manifest = reply.add_manifests();
    if (!record) continue;
    services.index.uses().Record(key, 0);
    *manifest = std::move(*record->mutable_manifest());
  }
  return absl::OkStatus();
}

absl::Status Explain(Services& services, Call& call, const v1::ExplainRequest& request, v1::ExplainReply& reply) {
  std::string key = request.key();
  if (key.empty()) {
    CompileRequest story(services, request.request());
    absl::StatusOr<v1::CompileResult> compiled = story.Run(SilentCaller(call));
    RecordRequest(services, call.request_id(), story, compiled);
    RETURN_IF_ERROR(compiled.status());
    key = compiled->key();
  }
  ASSIGN_OR_RETURN(reply, ExplainKey(services, key));
  return absl::OkStatus();
}

absl::Status Stats(Services& services, v1::StatsReply& reply) {
  ASSIGN_OR_RETURN(cache::ArtifactIndex::Totals totals, services.index.Count());
  reply = services.metrics.Stats();
  reply.set_entries(totals.entries);
  reply.set_bytes(totals.bytes);
  reply.set_inflight(static_cast<int64_t>(services.inflight.waited_for()));
  reply.set_queue_depth(static_cast<int64_t>(services.pool.Count().queued));
  return absl::OkStatus();
}

absl::Status ReportLocalHits(Services& services, const Call& call, const v1::LocalHits& request) {
  std::string name_space = call.identity().name_space;
  if (name_space.empty()) name_space = request.name_space().empty() ? "default" : request.name_space();
  for (const auto& [key, reported] : request.hits()) {
    ASSIGN_OR_RETURN(std::optional<v1::GenerationRecord> record, services.index.Lookup(key, 0));
    if (!record) continue;  // of another server, or evicted since
    int64_t count = std::clamp<int64_t>(reported, 0, kMostLocalHits);
    const v1::StageSeconds& seconds = record->manifest().seconds();
    services.metrics.CountRequest(name_space, "hit", "local", count);
    services.metrics.CountSaved(
        name_space, request.job_id(), key,
        seconds.import() + seconds.passes() + seconds.codegen() + seconds.compile() + seconds.tune());
    services.index.uses().Record(key, count);
  }
  return absl::OkStatus();
}

constexpr bool kQuick = false, kBlocking = true;

}  // namespace

void AddCompilerMethods(RpcRouter& router, Services& services) {
  router.Stream<v1::CompileRequest>("/preheat.v1.Compiler/Compile", kQuick,
                                    [&](std::shared_ptr<Call> call, v1::CompileRequest request) {
                                      ServeCompile(services, router, std::move(call), std::move(request));
                                    });
  router.Unary<v1::LookupRequest, v1::LookupReply>(
      "/preheat.v1.Compiler/Lookup", kQuick, [&](Call&, const v1::LookupRequest& request, v1::LookupReply& reply) {
        return Lookup(services, request, reply);
      });
  router.Unary<v1::ExplainRequest, v1::ExplainReply>(
      "/preheat.v1.Compiler/Explain", kBlocking,
      [&](Call& call, const v1::ExplainRequest& request, v1::ExplainReply& reply) {
        return Explain(services, call, request, reply);
      });
  router.Unary<v1::VerifyRequest, v1::VerifyReply>(
      "/preheat.v1.Compiler/Verify", kBlocking,
      [&](Call& call, const v1::VerifyRequest& request, v1::VerifyReply& reply) -> absl::Status {
        ASSIGN_OR_RETURN(reply, Verify(services, request, SilentCaller(call)));
        return absl::OkStatus();
      });
  router.Unary<v1::CompileRequest, v1::WhyMissReply>(
      "/preheat.v1.Compiler/WhyMiss", kBlocking,
      [&](Call& call, const v1::CompileRequest& request, v1::WhyMissReply& reply) -> absl::Status {
        ASSIGN_OR_RETURN(reply, ExplainMiss(services, request, SilentCaller(call)));
        return absl::OkStatus();
      });
  router.Unary<v1::StatsRequest, v1::StatsReply>(
      "/preheat.v1.Compiler/Stats", kBlocking,
      [&](Call&, const v1::StatsRequest&, v1::StatsReply& reply) { return Stats(services, reply); });
  router.Unary<v1::LocalHits, v1::LocalHitsReply>("/preheat.v1.Compiler/ReportLocalHits", kBlocking,
                                                  [&](Call& call, const v1::LocalHits& request, v1::LocalHitsReply&) {
                                                    return ReportLocalHits(services, call, request);
                                                  });
}

}  // namespace preheat::server
