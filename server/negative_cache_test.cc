#include "server/negative_cache.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::server {
namespace {

TEST(NegativeCache, BelievesEachKindForItsTime) {
  int64_t now = 0;
  NegativeCache cache([&] { return now; });
  absl::Status invalid =
      MakeError(absl::StatusCode::kInvalidArgument, {.kind = "bad", .message = "m", .where = "", .fix = ""});
  absl::Status lost =
      MakeError(absl::StatusCode::kInternal, {.kind = "task_killed_workers", .message = "m", .where = "", .fix = ""});
  cache.Put("a", invalid);
  cache.Put("b", lost);
  cache.Put("c", absl::CancelledError("nobody waits"));
  EXPECT_EQ(cache.Check("a"), invalid);
  EXPECT_EQ(cache.Check("b"), lost);
  EXPECT_TRUE(cache.Check("c").ok());
  now += NegativeCache::kLostWorkerMs;
  EXPECT_EQ(cache.Check("a"), invalid);
  EXPECT_TRUE(cache.Check("b").ok());
  now += NegativeCache::kDeterministicMs;
  EXPECT_TRUE(cache.Check("a").ok());
}

TEST(NegativeCache, StaysBounded) {
  int64_t now = 0;
  NegativeCache cache([&] { return now; });
  for (size_t i = 0; i < NegativeCache::kMaxEntries + 10; ++i) cache.Put(absl::StrCat(i), absl::InternalError("m"));
  int kept = 0;
  for (size_t i = 0; i < NegativeCache::kMaxEntries + 10; ++i) kept += !cache.Check(absl::StrCat(i)).ok();
  EXPECT_EQ(kept, static_cast<int>(NegativeCache::kMaxEntries));
}

}  // namespace
}  // namespace preheat::server
