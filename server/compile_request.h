#ifndef PREHEAT_SERVER_COMPILE_REQUEST_H_
#define PREHEAT_SERVER_COMPILE_REQUEST_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "server/services.h"

namespace preheat::server {

// The life of one compile request, from what a client sent to what it gets. One thread, one request.
class CompileRequest {
 public:
  // All references must outlive it.
  CompileRequest(Services& services, const v1::CompileRequest& request, const Caller& caller)
      : services_(services), request_(request), caller_(caller) {}

  // The story; see "life of a compile request" in README.md. Typed errors of every part it meets.
  absl::StatusOr<v1::CompileResult> Run();

  // After Run: how /metrics counts it. "hit", "compiled", "coalesced", "negative", "refused", "failed", or "missing",
  // which is not counted.
  const std::string& result_label() const { return label_; }

  // Finds the key by import alone: what is stored under it, and the fields it was made of. For why-miss.
  absl::StatusOr<Outcome> FindKey();

 private:
  absl::Status Admit();
  absl::StatusOr<std::optional<Outcome>> LookUpAlias();
  absl::Status CheckFailedBefore();
  absl::StatusOr<Outcome> WaitForFlight(bool look_only);
  absl::StatusOr<v1::CompileResult> Reply(const Outcome& outcome);

  absl::StatusOr<std::string> ResolveTarget() const;
  absl::StatusOr<v1::GenerationRecord> SelectGeneration(const std::string& key);
  absl::Status CheckClient(const v1::GenerationRecord& record) const;
  absl::Status AddBlobs(const v1::Manifest& manifest, v1::CompileResult& result);
  void AddBoundary(const Outcome& outcome, v1::CompileResult& result) const;
  void CountUse(const v1::GenerationRecord& record, v1::Result result);
  std::string name_space() const { return request_.name_space().empty() ? "default" : request_.name_space(); }

  Services& services_;
  const v1::CompileRequest& request_;
  const Caller& caller_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string target_;  // canonical, once admitted
  std::string alias_;   // once admitted
  std::string label_ = "failed";
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COMPILE_REQUEST_H_
