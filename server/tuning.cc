#include "server/tuning.h"

#include <spdlog/spdlog.h>

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/log.h"
#include "server/verification.h"

namespace preheat::server {
namespace {

// For a quiet machine: of somebody who waits, and of nobody.
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(5), kMuchPatience = std::chrono::minutes(10);

// Other work goes first for so long at least, and it may wait long for a quiet machine. Without: somebody waits for it.
void LetOthersGoFirst(PoolTask& task, std::optional<std::chrono::milliseconds> after) {
  task.alone = after.has_value();
  task.pause = after.value_or(std::chrono::milliseconds(0));
  task.not_before = std::chrono::steady_clock::now() + task.pause;
  task.most_interruptions = task.alone ? std::numeric_limits<int>::max() : PoolTask().most_interruptions;
  task.message.mutable_tune()->set_patience_ms((task.alone ? kMuchPatience : kPatience).count());
}

// One that has been queued when nobody waited for it.
void HurryTuning(Services& services, const std::string& key) {
  services.pool.Hurry([&](PoolTask& task) {
    if (!task.message.has_tune() || task.message.tune().manifest().key() != key) return false;
    LetOthersGoFirst(task, std::nullopt);
    return true;
  });
}

absl::StatusOr<PoolTask> TaskFor(Services& services, const v1::Manifest& manifest, const v1::CompileRequest& request,
                                 std::optional<std::chrono::milliseconds> after) {
  PoolTask task;
  task.target = manifest.target();
  task.to_run = true;
  task.priority = PoolTask::Priority::kBackground;
  v1::TuneTask& tune = *task.message.mutable_tune();
  *tune.mutable_manifest() = manifest;
  *tune.mutable_exclude() = request.exclude();
  tune.set_freeze(request.freeze());
  tune.set_when_busy(services.tuning.when_busy());
  for (const v1::BlobRef& blob : {manifest.program(), manifest.ir()}) {
    ASSIGN_OR_RETURN((*tune.mutable_blobs())[blob.digest()], services.index.blobs().Read(blob.digest()));
  }
  LetOthersGoFirst(task, after);
  return task;
}

absl::Status NotTuned(const std::string& key, const std::string& reason) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "not_tuned", .message = reason, .where = key, .fix = "the default generation serves"});
}

v1::Tuning TuningOf(const v1::TaskDone& done) {
  v1::FusionReport report;
  auto found = done.blobs().find(done.manifest().report().digest());
  if (found != done.blobs().end()) report.ParseFromString(found->second);
  return report.tuning();
}

absl::StatusOr<v1::GenerationRecord> Publish(Services& services, v1::TaskDone& done) {
  cache::Publication publication;
  publication.manifest = std::move(*done.mutable_manifest());
  for (auto& [digest, bytes] : *done.mutable_blobs()) publication.blobs[digest] = std::move(bytes);
  ASSIGN_OR_RETURN(v1::KeyRecord known, services.index.DescribeKey(publication.manifest.key()));
  publication.key_fields = {known.fields().begin(), known.fields().end()};
  publication.name = known.name();
  return services.index.Publish(std::move(publication));
}

void Tell(const v1::Manifest& manifest, const v1::Tuning& tuning) {
  int chosen = 0;
  for (const v1::TunedSite& site : tuning.sites()) chosen += site.schedule() != "default";
  LogEvent(spdlog::level::info, "tuned",
           {{"key", manifest.key()},
            {"generation", static_cast<int64_t>(manifest.generation())},
            {"seconds", manifest.seconds().tune()},
            {"ratio", tuning.ratio()},
            {"sites", static_cast<int64_t>(tuning.sites_size())},
            {"chosen", static_cast<int64_t>(chosen)}});
}

// What a worker came back with, published.
absl::StatusOr<Outcome> Land(Services& services, const std::string& key, absl::StatusOr<v1::TaskDone> done) {
  RETURN_IF_ERROR(done.status());
  if (!done->has_manifest()) {
    services.tuning.GiveUp(key);
    return NotTuned(key, done->not_tuned());
  }
  if (done->manifest().key() != key) return absl::InternalError("the worker has tuned another key");
  const v1::Tuning tuning = TuningOf(*done);
  const std::map<std::string, std::string> records(done->tuning_records().begin(), done->tuning_records().end());
  if (absl::Status kept = services.tuning.records().Put(records); !kept.ok()) {
    spdlog::warn("tuning records not kept: {}", std::string(kept.message()));
  }
  ASSIGN_OR_RETURN(v1::GenerationRecord record, Publish(services, *done));
  services.metrics.ObserveTuning(record.manifest().target(), record.manifest().seconds().tune(), tuning.ratio());
  Tell(record.manifest(), tuning);
  const v1::Evidence::State verified = record.manifest().evidence().state();
  if (verified == v1::Evidence::FAILED) {
    services.tuning.GiveUp(key);
    return NotTuned(key, "the tuned generation was held against the reference and withdrawn");
  }
  if (services.verify && verified == v1::Evidence::PENDING) StartVerification(services, record);
  Outcome outcome;
  outcome.key = key;
  outcome.result = v1::COMPILED;
  return outcome;
}

void Begin(Services& services, const std::shared_ptr<Flight>& flight, const v1::Manifest& manifest,
           const v1::CompileRequest& request, std::optional<std::chrono::milliseconds> after) {
  absl::StatusOr<PoolTask> task = TaskFor(services, manifest, request, after);
  if (!task.ok()) return services.inflight.Finish(flight, task.status());
  task->on_progress = [flight](const v1::Progress& progress) { flight->Tell(progress); };
  task->on_end = [&services, flight, key = manifest.key()](absl::StatusOr<v1::TaskDone> done) {
    const DoneFn land = [&services, flight, key](absl::StatusOr<v1::TaskDone> verified) {
      absl::StatusOr<Outcome> outcome = Land(services, key, std::move(verified));
      if (!outcome.ok())
        LogEvent(spdlog::level::info, "not tuned", {{"key", key}, {"reason", std::string(outcome.status().message())}});
      services.inflight.Finish(flight, std::move(outcome));
    };
    done.ok() ? VerifyFirst(services, *std::move(done), land) : land(done.status());
  };
  absl::Status submitted = services.pool.Submit(*std::move(task)).status();
  if (!submitted.ok()) services.inflight.Finish(flight, submitted);
}

}  // namespace

bool CannotBeTuned(Services& services, const std::string& key) { return services.tuning.HasGivenUp(key); }

std::shared_ptr<Flight> JoinTuning(Services& services, const v1::Manifest& manifest, const v1::CompileRequest& request,
                                   std::optional<std::chrono::milliseconds> after) {
  if (CannotBeTuned(services, manifest.key())) return nullptr;
  const std::string alias = absl::StrCat("tune ", manifest.key());
  InflightTable::Joined joined = services.inflight.Join(alias);
  if (joined.leads) {
    services.inflight.Keep(joined.flight);
    Begin(services, joined.flight, manifest, request, after);
  } else if (!after) {
    HurryTuning(services, manifest.key());
  }
  return joined.flight;
}

}  // namespace preheat::server
