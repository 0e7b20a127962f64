#include "server/compile_call.h"

#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "server/compile_request.h"
#include "server/log.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

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

class CompileCall : public std::enable_shared_from_this<CompileCall> {
 public:
  CompileCall(Services& services, std::shared_ptr<Call> call, v1::CompileRequest request)
      : services_(services), call_(std::move(call)), story_(services, std::move(request)) {}

  bool toolchain_known() const { return story_.toolchain_known(); }
  void WaitForToolchain() {
    story_.WaitForToolchain([this] { return call_->cancelled(); });
  }

  void Serve() {
    absl::StatusOr<std::optional<v1::CompileResult>> hit = story_.Begin();
    if (!hit.ok()) return Answer(hit.status());
    if (*hit) return AnswerOrTune(**std::move(hit));
    absl::StatusOr<std::shared_ptr<Flight>> flight = story_.Join(call_->TakeRoom());
    if (!flight.ok()) return Answer(flight.status());
    if (*flight == nullptr) return Answer(story_.NeedSource());
    Follow(*std::move(flight),
           [this](const absl::StatusOr<Outcome>& outcome) { AnswerOrTune(story_.Finish(outcome)); });
  }

 private:
  using EndFn = std::function<void(const absl::StatusOr<Outcome>&)>;

  // A flight that this call waits for.
  struct Leg {
    std::shared_ptr<Flight> flight;
    EndFn end;
    std::atomic<bool> ended{false};
  };

  // The flight holds this call until it is over or the caller goes away; either comes first.
  void Follow(std::shared_ptr<Flight> flight, EndFn end) {
    auto self = shared_from_this();
    auto leg = std::make_shared<Leg>();
    leg->flight = std::move(flight);
    leg->end = std::move(end);
    const int64_t follower =
        leg->flight->Follow([self](const v1::Progress& progress) { self->Tell(progress); },
                            [self, leg](const absl::StatusOr<Outcome>& outcome) {
                              self->services_.replies.Post([self, leg, outcome] { self->End(*leg, outcome); });
                            });
    call_->OnCancel([self, leg, follower] {
      leg->flight->Unfollow(follower);
      self->End(*leg, absl::CancelledError("the caller went away"));
    });
  }

  void AnswerOrTune(absl::StatusOr<v1::CompileResult> result) {
    std::shared_ptr<Flight> tuning = result.ok() ? story_.JoinTuning(*result) : nullptr;
    if (tuning == nullptr) return Answer(std::move(result));
    Follow(std::move(tuning), [this, by_default = *std::move(result)](const absl::StatusOr<Outcome>& outcome) {
      Answer(story_.FinishTuned(outcome, by_default));
    });
  }

  void Tell(const v1::Progress& progress) {
    v1::CompileEvent event;
    *event.mutable_progress() = progress;
    call_->Send(event);
  }

  void End(Leg& leg, const absl::StatusOr<Outcome>& outcome) {
    if (leg.ended.exchange(true)) return;
    services_.inflight.Leave(leg.flight);
    leg.end(outcome);
  }

  void Answer(absl::StatusOr<v1::CompileResult> result) {
    RecordRequest(services_, call_->request_id(), story_, result);
    v1::CompileEvent event;
    if (result.ok()) {
      *event.mutable_done() = *std::move(result);
    } else {
      *event.mutable_error() = ToProto(result.status());
    }
    call_->Send(event, story_.TakeRoom());
    call_->Finish(result.status());
  }

  Services& services_;
  const std::shared_ptr<Call> call_;
  CompileRequest story_;  // of one thread at a time: the one that serves, then the one that ends
};

}  // namespace

void ServeCompile(Services& services, RpcRouter& router, std::shared_ptr<Call> call, v1::CompileRequest request) {
  // Whoever says who he is counts for his own namespace.
  if (!call->identity().name_space.empty()) request.set_name_space(call->identity().name_space);
  auto compile = std::make_shared<CompileCall>(services, call, std::move(request));
  if (compile->toolchain_known()) return compile->Serve();
  router.RunBlocking(call, [compile] {
    compile->WaitForToolchain();
    compile->Serve();
  });
}

void RecordRequest(Services& services, const std::string& request_id, const CompileRequest& story,
                   const absl::StatusOr<v1::CompileResult>& result) {
  const std::string& label = story.result_label();
  if (label != "missing" && label != "source_needed") {
    services.metrics.CountRequest(story.name_space(), label, "server");
    services.metrics.ObserveRequest(label, story.Seconds());
  }
  LogRequest(story.request(), request_id, label, result, story.Seconds());
}

}  // namespace preheat::server
