#include "server/admission.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::server {
namespace {

constexpr std::chrono::seconds kRetryWaiting{2};
constexpr size_t kLongestName = 256;
constexpr int kMostDims = 64;
constexpr int kMostExcluded = 1000;
constexpr int kMostBlobs = 10000;

absl::Status Invalid(std::string message, std::string where) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "invalid_request", .message = std::move(message), .where = std::move(where), .fix = ""});
}

absl::Status CheckName(const std::string& name, const char* field) {
  if (name.size() <= kLongestName) return absl::OkStatus();
  return Invalid(absl::StrCat("longer than ", kLongestName, " bytes"), field);
}

absl::Status Full(std::string message) {
  return WithRetryAfter(
      MakeError(absl::StatusCode::kResourceExhausted, {.kind = "too_many_waiting",
                                                       .message = std::move(message),
                                                       .where = "",
                                                       .fix = "ask again later, or raise max_waiting"}),
      kRetryWaiting);
}

}  // namespace

absl::Status Admission::Check(const v1::CompileRequest& request) const {
  if (auto bytes = static_cast<int64_t>(request.ByteSizeLong()); bytes > limits_.max_request_bytes) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        {.kind = "request_too_large",
         .message = absl::StrCat("the request has ", bytes, " bytes, ", limits_.max_request_bytes, " are allowed"),
         .where = "",
         .fix = "raise max_request_bytes; weights never travel, so look for large constants"});
  }
  if (request.source().kind_case() == v1::Source::KIND_NOT_SET && request.source_digest().empty())
    return Invalid("the request has no program", "source");
  if (!request.source_digest().empty() && !IsDigest(request.source_digest()))
    return Invalid("no SHA-256 of 64 small hexadecimal digits", "source_digest");
  for (auto [name, field] : {std::pair(&request.name(), "name"), std::pair(&request.name_space(), "name_space"),
                             std::pair(&request.job_id(), "job_id"), std::pair(&request.target(), "target"),
                             std::pair(&request.environment().cpu(), "environment.cpu")}) {
    if (absl::Status status = CheckName(*name, field); !status.ok()) return status;
  }
  if (request.dims_size() > kMostDims) return Invalid("too many dimensions", "dims");
  if (request.exclude_size() > kMostExcluded) return Invalid("too many operators", "exclude");
  if (request.have_blobs_size() > kMostBlobs) return Invalid("too many digests", "have_blobs");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<void>> Admission::Enter() {
  if (++waiting_ > limits_.max_waiting) {
    --waiting_;
    return Full(absl::StrCat(limits_.max_waiting, " requests are waiting already"));
  }
  return std::shared_ptr<void>(this, [](void* self) { --static_cast<Admission*>(self)->waiting_; });
}

}  // namespace preheat::server
