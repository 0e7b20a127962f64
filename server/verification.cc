#include "server/verification.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "cache/clock.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/find_artifact.h"
#include "server/log.h"

namespace preheat::server {
namespace {

constexpr std::chrono::milliseconds kCancelPoll{200};
// The job that has just fetched the artifact is about to time its first runs: evidence can wait a little for it.
constexpr std::chrono::seconds kPatience{20};
constexpr int kMostResumed = 100;  // each holds its blobs in memory until it is done

using EndFn = std::function<void(absl::StatusOr<v1::TaskDone>)>;

// With the blobs that a worker needs: plan, code and program.
absl::StatusOr<PoolTask> TaskFor(Services& services, const v1::Manifest& manifest, const v1::VerifyRequest& request) {
  PoolTask task;
  task.target = manifest.target();
  v1::VerifyTask& verify = *task.message.mutable_verify();
  *verify.mutable_manifest() = manifest;
  *verify.mutable_request() = request;
  std::vector<v1::BlobRef> needed(manifest.code().begin(), manifest.code().end());
  needed.push_back(manifest.plan());
  needed.push_back(manifest.program());
  for (const v1::BlobRef& blob : needed) {
    ASSIGN_OR_RETURN(std::string bytes, services.index.blobs().Read(blob.digest()));
    (*verify.mutable_blobs())[blob.digest()] = std::move(bytes);
  }
  return task;
}

void Record(Services& services, const v1::Manifest& manifest, const v1::Evidence& evidence) {
  services.metrics.ObserveVerify(manifest.target(), evidence.seconds(), evidence.state());
  absl::Status status = services.index.AddEvidence(manifest.key(), manifest.generation(), evidence);
  if (!status.ok()) spdlog::error("evidence of {} not kept: {}", manifest.key(), std::string(status.message()));
  if (evidence.state() == v1::Evidence::FAILED) {
    LogEvent(spdlog::level::err, "failed verification, withdrawn",
             {{"key", manifest.key()},
              {"generation", static_cast<int64_t>(manifest.generation())},
              {"reason", evidence.reason()}});
  }
}

// A worker that could not do it has found nothing about the numerics.
v1::Evidence NotPossible(const absl::Status& status) {
  v1::Evidence evidence;
  evidence.set_state(v1::Evidence::NOT_POSSIBLE);
  evidence.set_reason(std::string(status.message()));
  return evidence;
}

absl::StatusOr<std::string> Submit(Services& services, const v1::Manifest& manifest, const v1::VerifyRequest& request,
                                   PoolTask::Priority priority, EndFn on_end) {
  ASSIGN_OR_RETURN(PoolTask task, TaskFor(services, manifest, request));
  task.priority = priority;
  if (priority == PoolTask::Priority::kBackground) {
    const int64_t patience = std::chrono::milliseconds(kPatience).count();
    task.message.mutable_verify()->set_quiet_until_unix_ms(cache::SystemNowMs() + patience);
  }
  task.on_end = [&services, manifest, own_inputs = !request.inputs().empty(),
                 on_end](absl::StatusOr<v1::TaskDone> done) {
    bool lasting = done.ok() || (!absl::IsCancelled(done.status()) && !absl::IsUnavailable(done.status()));
    if (lasting && !own_inputs) {
      Record(services, manifest, done.ok() ? done->evidence() : NotPossible(done.status()));
    }
    on_end(std::move(done));
  };
  return services.pool.Submit(std::move(task));
}

}  // namespace

void StartVerification(Services& services, const v1::GenerationRecord& record) {
  v1::VerifyRequest request;
  request.set_key(record.manifest().key());
  absl::Status status =
      Submit(services, record.manifest(), request, PoolTask::Priority::kBackground, [](absl::StatusOr<v1::TaskDone>) {
      }).status();
  if (!status.ok()) spdlog::warn("{} is not verified: {}", record.manifest().key(), std::string(status.message()));
}

void ResumeVerifications(Services& services) {
  auto entries = services.index.List("");
  if (!entries.ok()) return spdlog::warn("verifications not resumed: {}", std::string(entries.status().message()));
  int resumed = 0;
  for (const v1::Entry& entry : *entries) {
    if (entry.verified() != v1::Evidence::PENDING || resumed == kMostResumed) continue;
    auto record = services.index.Lookup(entry.key(), entry.generation());
    if (!record.ok() || !*record) continue;
    StartVerification(services, **record);
    ++resumed;
  }
}

absl::StatusOr<v1::VerifyReply> Verify(Services& services, const v1::VerifyRequest& request, const Caller& caller) {
  ASSIGN_OR_RETURN(v1::GenerationRecord record, FindArtifact(services.index, request.key(), 0));
  auto promise = std::make_shared<std::promise<absl::StatusOr<v1::TaskDone>>>();
  std::future<absl::StatusOr<v1::TaskDone>> future = promise->get_future();
  ASSIGN_OR_RETURN(std::string task,
                   Submit(services, record.manifest(), request, PoolTask::Priority::kRequest,
                          [promise](absl::StatusOr<v1::TaskDone> done) { promise->set_value(std::move(done)); }));
  for (bool cancelled = false; future.wait_for(kCancelPoll) != std::future_status::ready;) {
    if (!cancelled && caller.cancelled()) {
      services.pool.Cancel(task);
      return absl::CancelledError("the caller went away");
    }
  }
  ASSIGN_OR_RETURN(v1::TaskDone done, future.get());
  v1::VerifyReply reply;
  reply.set_key(request.key());
  reply.set_ok(done.evidence().state() == v1::Evidence::OK);
  *reply.mutable_evidence() = done.evidence();
  return reply;
}

}  // namespace preheat::server
