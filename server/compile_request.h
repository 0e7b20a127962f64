#ifndef PREHEAT_SERVER_COMPILE_REQUEST_H_
#define PREHEAT_SERVER_COMPILE_REQUEST_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/services.h"

namespace preheat::server {

// The life of one compile request, from what a client sent to what it gets: Begin, and where nothing is stored
// yet Join, the flight, Finish. One thread at a time, one request.
class CompileRequest {
 public:
  // `services` must outlive it.
  CompileRequest(Services& services, v1::CompileRequest request) : services_(services), request_(std::move(request)) {}

  // The whole story, for those who may block; see "life of a compile request" in README.md. Typed errors of every part
  // it meets.
  absl::StatusOr<v1::CompileResult> Run(const Caller& caller);

  // A fresh server learns what its workers compile with from the first of them, and no alias can be built before.
  // Blocks until then, or for a while; returns at once on any other day.
  void WaitForToolchain(const std::function<bool()>& cancelled) const;
  bool toolchain_known() const { return services_.pool.toolchain().has_value(); }

  // The reply if there is a servable artifact already (a hit), nothing if one has to be made. REQUIRES: the toolchain
  // is known, or was waited for.
  absl::StatusOr<std::optional<v1::CompileResult>> Begin();
  // The flight that makes it, begun if nobody else has; null if nobody has and the request brought no program either,
  // which NeedSource answers. Leave it (services.inflight) once it is over or nobody waits.
  // RESOURCE_EXHAUSTED "too_many_waiting", or the namespace's quota by the flight. The source is given away, and with
  // it `room`, its place in memory: this is called once.
  absl::StatusOr<std::shared_ptr<Flight>> Join(std::shared_ptr<void> room);
  // The reply, from what the flight came to.
  absl::StatusOr<v1::CompileResult> Finish(absl::StatusOr<Outcome> outcome);
  v1::CompileResult NeedSource();

  // After Begin or Finish has given `result`: the flight of the tuned generation that this request waits for; leave it
  // like the other. Null where it takes what it has; in mode background, one is asked for all the same.
  std::shared_ptr<Flight> JoinTuning(const v1::CompileResult& result);
  // The reply with the tuned generation, or `by_default` where there is none.
  v1::CompileResult FinishTuned(const absl::StatusOr<Outcome>& outcome, v1::CompileResult by_default);

  // After Begin or Finish: what a reply with blobs holds, until it has left.
  std::shared_ptr<void> TakeRoom() { return std::move(room_); }
  // After Begin or Finish: how /metrics counts it. "hit", "compiled", "coalesced", "negative", "refused", "failed", or
  // "missing" and "source_needed", which are not counted.
  const std::string& result_label() const { return label_; }
  const v1::CompileRequest& request() const { return request_; }  // after Join without its source
  std::string name_space() const { return request_.name_space().empty() ? "default" : request_.name_space(); }
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  // Finds the key by import alone: what is stored under it, and the fields it was made of. For why-miss.
  absl::StatusOr<Outcome> FindKey(const Caller& caller);

 private:
  absl::Status Admit();
  absl::StatusOr<std::optional<Outcome>> LookUpAlias();
  absl::Status CheckFailedBefore();
  absl::StatusOr<std::shared_ptr<Flight>> ShareFlight();
  bool SaysNothing(const absl::StatusOr<Outcome>& outcome) const;
  absl::StatusOr<std::shared_ptr<Flight>> JoinFlight(std::shared_ptr<void> room, bool look_only);
  absl::StatusOr<Outcome> Wait(const std::shared_ptr<Flight>& flight, const Caller& caller);
  absl::StatusOr<v1::CompileResult> Reply(Outcome outcome);

  absl::StatusOr<std::string> ResolveTarget() const;
  absl::StatusOr<v1::GenerationRecord> SelectGeneration(const std::string& key);
  bool LacksTuning(const v1::GenerationRecord& record) const;
  v1::CompileResult Missing(v1::CompileResult result);
  absl::StatusOr<v1::GenerationRecord> FindNewest(const std::string& key);
  absl::Status CheckClient(const v1::GenerationRecord& record) const;
  bool EnterReply(const v1::GenerationRecord& record);
  absl::Status AddBlobs(const v1::Manifest& manifest, v1::CompileResult& result);
  void AddBoundary(Outcome& outcome, v1::CompileResult& result) const;
  void CountUse(const v1::GenerationRecord& record, v1::Result result);

  Services& services_;
  v1::CompileRequest request_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string target_;      // canonical, once admitted
  std::string alias_;       // once admitted
  bool by_digest_ = false;  // brought no program
  std::string label_ = "failed";
  std::optional<v1::GenerationRecord> newest_;  // of the alias' key, until the reply takes it
  std::shared_ptr<void> place_;                 // among those that wait
  std::shared_ptr<void> room_;                  // for the blobs of the reply
  bool leads_ = false;                          // the flight is this request's own
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COMPILE_REQUEST_H_
