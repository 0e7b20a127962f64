#include "server/byte_budget.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::server {
namespace {

constexpr std::chrono::seconds kRetry{1};

}  // namespace

absl::StatusOr<std::shared_ptr<void>> ByteBudget::Enter(int64_t bytes) {
  if (const int64_t all = bytes_ += bytes; all <= most_ || all == bytes) {
    return std::shared_ptr<void>(this, [bytes](void* self) { static_cast<ByteBudget*>(self)->bytes_ -= bytes; });
  }
  bytes_ -= bytes;
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted,
                                  {.kind = "too_many_bytes",
                                   .message = absl::StrCat("there are ", most_ >> 20, " MiB of ", what_, " already"),
                                   .where = "",
                                   .fix = "ask again a moment later"}),
                        kRetry);
}

}  // namespace preheat::server
