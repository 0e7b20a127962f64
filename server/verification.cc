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

using BlobMap = google::protobuf::Map<std::string, std::string>;

// With the blobs that a worker needs: plan, code and program, of those at hand or stored.
absl::StatusOr<PoolTask> TaskFor(Services& services, const v1::Manifest& manifest, const v1::VerifyRequest& request,
                                 const BlobMap& at_hand) {
  PoolTask task;
  task.target = manifest.target();
  task.to_run = true;
  v1::VerifyTask& verify = *task.message.mutable_verify();
  *verify.mutable_manifest() = manifest;
  *verify.mutable_request() = request;
  std::vector<v1::BlobRef> needed(manifest.code().begin(), manifest.code().end());
  needed.push_back(manifest.plan());
  needed.push_back(manifest.program());
  for (const v1::BlobRef& blob : needed) {
    std::string& bytes = (*verify.mutable_blobs())[blob.digest()];
    if (auto found = at_hand.find(blob.digest()); found != at_hand.end()) {
      bytes = found->second;
    } else {
      ASSIGN_OR_RETURN(bytes, services.index.blobs().Read(blob.digest()));
    }
  }
  return task;
}

void Observe(Services& services, const v1::Manifest& manifest, const v1::Evidence& evidence) {
  services.metrics.ObserveVerify(manifest.target(), evidence.seconds(), evidence.state());
  if (evidence.state() == v1::Evidence::FAILED) {
    LogEvent(spdlog::level::err, "failed verification, withdrawn",
             {{"key", manifest.key()},
              {"generation", static_cast<int64_t>(manifest.generation())},
              {"reason", evidence.reason()}});
  }
}

void Record(Services& services, const v1::Manifest& manifest, const v1::Evidence& evidence) {
  Observe(services, manifest, evidence);
  absl::Status status = services.index.AddEvidence(manifest.key(), manifest.generation(), evidence);
  if (!status.ok()) spdlog::error("evidence of {} not kept: {}", manifest.key(), std::string(status.message()));
}

// Whether another attempt would come to the same.
bool IsLasting(const absl::Status& status) { return !absl::IsCancelled(status) && !absl::IsUnavailable(status); }

// A worker that could not do it has found nothing about the numerics.
v1::Evidence NotPossible(const absl::Status& status) {
  v1::Evidence evidence;
  evidence.set_state(v1::Evidence::NOT_POSSIBLE);
  evidence.set_reason(std::string(status.message()));
  return evidence;
}

absl::StatusOr<std::string> Submit(Services& services, const v1::Manifest& manifest, const v1::VerifyRequest& request,
                                   PoolTask::Priority priority, DoneFn on_end) {
  ASSIGN_OR_RETURN(PoolTask task, TaskFor(services, manifest, request, {}));
  task.priority = priority;
  if (priority == PoolTask::Priority::kBackground) {
    const int64_t patience = std::chrono::milliseconds(kPatience).count();
    task.message.mutable_verify()->set_quiet_until_unix_ms(cache::SystemNowMs() + patience);
  }
  task.on_end = [&services, manifest, own_inputs = !request.inputs().empty(),
                 on_end](absl::StatusOr<v1::TaskDone> done) {
    if (IsLasting(done.status()) && !own_inputs) {
      Record(services, manifest, done.ok() ? done->evidence() : NotPossible(done.status()));
    }
    on_end(std::move(done));
  };
  return services.pool.Submit(std::move(task));
}

}  // namespace

absl::Status FailedVerification(const std::string& key) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "failed_verification",
                    .message = "what the compiler makes of this program was held against the reference and withdrawn",
                    .where = key,
                    .fix = "run it in eager mode and report the program; `compilectl rm` lets it be compiled anew"});
}

void StartVerification(Services& services, const v1::GenerationRecord& record) {
  v1::VerifyRequest request;
  request.set_key(record.manifest().key());
  absl::Status status =
      Submit(services, record.manifest(), request, PoolTask::Priority::kBackground, [](absl::StatusOr<v1::TaskDone>) {
      }).status();
  if (!status.ok()) spdlog::warn("{} is not verified: {}", record.manifest().key(), std::string(status.message()));
}

void VerifyFirst(Services& services, v1::TaskDone done, DoneFn go_on) {
  if (!services.verify || !services.verify_first || !done.has_manifest()) return go_on(std::move(done));
  v1::VerifyRequest request;
  request.set_key(done.manifest().key());
  absl::StatusOr<PoolTask> task = TaskFor(services, done.manifest(), request, done.blobs());
  if (!task.ok()) return go_on(task.status());
  auto held = std::make_shared<v1::TaskDone>(std::move(done));
  task->on_end = [&services, held, go_on](absl::StatusOr<v1::TaskDone> verified) {
    if (!IsLasting(verified.status())) return go_on(verified.status());
    v1::Manifest& manifest = *held->mutable_manifest();
    *manifest.mutable_evidence() = verified.ok() ? verified->evidence() : NotPossible(verified.status());
    Observe(services, manifest, manifest.evidence());
    go_on(std::move(*held));
  };
  if (absl::Status submitted = services.pool.Submit(*std::move(task)).status(); !submitted.ok()) go_on(submitted);
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
