#include "compiler/support/retry_after.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace preheat {
namespace {

constexpr char kRetryAfter[] = "preheat/retry_after_ms";
constexpr int64_t kLongestMs = 3600 * 1000;

}  // namespace

absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds wait) {
  if (status.ok()) return status;
  status.SetPayload(kRetryAfter, absl::Cord(absl::StrCat(std::clamp<int64_t>(wait.count(), 0, kLongestMs))));
  return status;
}

std::optional<std::chrono::milliseconds> GetRetryAfter(const absl::Status& status) {
  auto payload = status.GetPayload(kRetryAfter);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return std::chrono::milliseconds(ms);
}

}  // namespace preheat
