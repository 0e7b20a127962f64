#include "server/compile_flight.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/clock.h"
#include "compiler/support/error.h"
#include "server/log.h"
#include "server/verification.h"

namespace preheat::server {
namespace {

// What the worker was asked. Debug information stays: it names nodes in errors and inputs in results.
PoolTask TaskFor(v1::CompileRequest request, const std::string& target) {
  PoolTask task;
  task.target = target;
  v1::CompileRequest& sent = *task.message.mutable_compile()->mutable_request();
  sent = std::move(request);
  sent.set_target(target);
  sent.clear_have_blobs();
  // A client without torch is refused when its reply is made; the artifact serves the others.
  sent.set_extern_allowed(true);
  return task;
}

class CompileFlight : public std::enable_shared_from_this<CompileFlight> {
 public:
  CompileFlight(Services& services, std::shared_ptr<Flight> flight, const v1::CompileRequest& request,
                std::vector<std::shared_ptr<void>> held, std::string alias, const std::string& target, bool look_only)
      : services_(services),
        flight_(std::move(flight)),
        held_(std::move(held)),
        alias_(std::move(alias)),
        target_(target),
        name_(request.name()),
        name_space_(request.name_space()),
        names_are_the_requests_(request.source().has_program()),
        look_only_(look_only) {}

  void Start(PoolTask task) {
    auto self = shared_from_this();
    task.on_key = [self](const v1::KeyKnown& known) { return self->OnKey(known); };
    task.on_progress = [self](const v1::Progress& progress) { self->flight_->Tell(progress); };
    task.on_end = [self](absl::StatusOr<v1::TaskDone> done) { self->OnEnd(std::move(done)); };
    v1::Progress queued;
    queued.set_stage("queued");
    flight_->Tell(queued);
    absl::StatusOr<std::string> id = services_.pool.Submit(std::move(task));
    if (!id.ok()) return End(id.status());
    services_.inflight.OnAbandoned(flight_, [self, id = *id] { self->Abandon(id); });
  }

 private:
  // The worker has found the key. True: go on and compile.
  bool OnKey(const v1::KeyKnown& known) {
    std::lock_guard lock(mutex_);
    if (abandoned_) return false;
    outcome_.key = known.key();
    outcome_.key_fields = {known.key_fields().begin(), known.key_fields().end()};
    absl::StatusOr<v1::Result> found = Find(known.key());
    error_ = found.status();
    outcome_.result = found.value_or(v1::RESULT_UNSPECIFIED);
    if (!error_.ok() || outcome_.result == v1::HIT || look_only_) return false;
    return Claim(known.key());
  }

  absl::StatusOr<v1::Result> Find(const std::string& key) {
    auto record = services_.index.Lookup(key, 0);
    if (!record.ok()) return record.status();
    if (*record) return v1::HIT;
    auto withdrawn = services_.index.Withdrawn(key);
    if (!withdrawn.ok()) return withdrawn.status();
    if (*withdrawn) return FailedVerification(key);
    return v1::MISSING;
  }

  // REQUIRES mutex_ held. False when another flight is making the same key: this one then follows it.
  bool Claim(const std::string& key) {
    if (following_) services_.inflight.Leave(std::exchange(following_, nullptr));
    std::shared_ptr<Flight> maker = services_.inflight.ClaimKey(key, flight_);
    if (maker == flight_) return true;
    following_ = std::move(maker);
    return false;
  }

  void OnEnd(absl::StatusOr<v1::TaskDone> done) {
    if (!done.ok()) return Fail(done.status());
    std::shared_ptr<Flight> maker;
    absl::Status error;
    {
      std::lock_guard lock(mutex_);
      error = error_;
      TakeBoundary(*done);
      maker = following_;
    }
    if (!error.ok()) return End(error);
    if (maker) return Follow(maker);
    if (!done->has_manifest()) {
      Remember();
      return End(outcome_);
    }
    VerifyFirst(services_, *std::move(done), [self = shared_from_this()](absl::StatusOr<v1::TaskDone> verified) {
      verified.ok() ? self->Publish(*std::move(verified)) : self->Fail(verified.status());
    });
  }

  // REQUIRES mutex_ held.
  void TakeBoundary(v1::TaskDone& done) {
    outcome_.inputs.Swap(done.mutable_inputs());
    outcome_.outputs.Swap(done.mutable_outputs());
    if (!names_are_the_requests_) return;
    for (v1::InputInfo& input : outcome_.inputs) input.clear_name();
    for (v1::OutputInfo& output : outcome_.outputs) output.clear_name();
  }

  // What was held for it goes first: whoever is told may ask for the next one at once.
  void End(absl::StatusOr<Outcome> outcome) {
    held_.clear();
    services_.inflight.Finish(flight_, std::move(outcome));
  }

  // `known_by_key`: the index keeps the failure, until the key is removed.
  void Fail(const absl::Status& status, bool known_by_key = false) {
    if (!known_by_key) services_.negative.Put(alias_, status);
    if (!absl::IsCancelled(status)) Tell(GetError(status).kind, std::string(status.message()));
    LeaveMaker();
    End(status);
  }

  void Follow(const std::shared_ptr<Flight>& maker) {
    auto self = shared_from_this();
    maker->Follow([self](const v1::Progress& progress) { self->flight_->Tell(progress); },
                  [self](const absl::StatusOr<Outcome>& made) {
                    if (!made.ok()) return self->End(made.status());
                    self->outcome_.result = v1::COALESCED;
                    self->Remember();
                    self->End(self->outcome_);
                  });
  }

  void Publish(v1::TaskDone done) {
    cache::Publication publication;
    publication.manifest = std::move(*done.mutable_manifest());
    publication.manifest.set_name_space(name_space_.empty() ? "default" : name_space_);
    for (auto& [digest, bytes] : *done.mutable_blobs()) publication.blobs[digest] = std::move(bytes);
    publication.key_fields = outcome_.key_fields;
    publication.name = name_;
    if (publication.manifest.key() != outcome_.key) {
      return Fail(absl::InternalError("the worker has handed in another key than it had announced"));
    }
    CountCompile(publication);
    absl::StatusOr<v1::GenerationRecord> record = services_.index.Publish(std::move(publication));
    if (!record.ok()) return Fail(record.status());
    if (record->manifest().evidence().state() == v1::Evidence::FAILED)
      return Fail(FailedVerification(outcome_.key), /*known_by_key=*/true);
    outcome_.result = v1::COMPILED;
    Remember();
    Tell("", "");
    End(outcome_);
    if (services_.verify && record->manifest().evidence().state() == v1::Evidence::PENDING)
      StartVerification(services_, *record);
  }

  // The status page and the log. `failure` is empty when it went well.
  void Tell(const std::string& failure, const std::string& error) {
    if (look_only_) return;
    History::Compile compile = {
        .unix_ms = cache::SystemNowMs(),
        .name = name_,
        .name_space = name_space_.empty() ? "default" : name_space_,
        .target = target_,
        .key = {},
        .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
        .failure = failure};
    {
      std::lock_guard lock(mutex_);
      compile.key = outcome_.key;
    }
    LogEvent(failure.empty() ? spdlog::level::info : spdlog::level::warn,
             failure.empty() ? "compiled" : "compile failed",
             {{"name", name_},
              {"key", compile.key},
              {"target", target_},
              {"namespace", compile.name_space},
              {"kind", failure},
              {"error", error},
              {"seconds", compile.seconds}});
    services_.history.Add(std::move(compile));
  }

  void CountCompile(const cache::Publication& publication) {
    services_.metrics.ObserveCompile(publication.manifest.target(), publication.manifest.seconds());
    v1::FusionReport report;
    auto found = publication.blobs.find(publication.manifest.report().digest());
    if (found != publication.blobs.end() && report.ParseFromString(found->second))
      services_.metrics.CountReport(report);
  }

  // The next request with this alias needs no import.
  void Remember() {
    if (outcome_.result == v1::MISSING) return;
    v1::AliasRecord record;
    record.set_key(outcome_.key);
    *record.mutable_inputs() = outcome_.inputs;
    *record.mutable_outputs() = outcome_.outputs;
    absl::Status status = services_.index.PutAlias(alias_, record);
    if (!status.ok()) spdlog::warn("alias not kept: {}", std::string(status.message()));
  }

  void LeaveMaker() {
    std::shared_ptr<Flight> maker;
    {
      std::lock_guard lock(mutex_);
      maker = std::exchange(following_, nullptr);
    }
    if (maker) services_.inflight.Leave(maker);
  }

  void Abandon(const std::string& task) {
    {
      std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    services_.pool.Cancel(task);
    LeaveMaker();
  }

  Services& services_;
  const std::shared_ptr<Flight> flight_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<void>> held_;  // until the end
  const std::string alias_, target_, name_, name_space_;
  const bool names_are_the_requests_, look_only_;

  std::mutex mutex_;  // an abandoned flight is told so by another thread than its worker's
  // Guarded by mutex_ until the task has ended.
  Outcome outcome_;
  absl::Status error_;
  std::shared_ptr<Flight> following_;
  bool abandoned_ = false;
};

}  // namespace

void StartCompile(Services& services, const std::shared_ptr<Flight>& flight, v1::CompileRequest request,
                  std::vector<std::shared_ptr<void>> held, const std::string& alias, const std::string& target,
                  bool look_only) {
  auto work = std::make_shared<CompileFlight>(services, flight, request, std::move(held), alias, target, look_only);
  work->Start(TaskFor(std::move(request), target));
}

}  // namespace preheat::server
