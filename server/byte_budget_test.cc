#include "server/byte_budget.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::server {
namespace {

TEST(ByteBudget, IsSharedAndComesBack) {
  ByteBudget budget(int64_t{100} << 20, "of things");
  auto first = budget.Enter(int64_t{60} << 20);
  ASSERT_TRUE(first.ok());
  const absl::Status full = budget.Enter(int64_t{41} << 20).status();
  EXPECT_EQ(GetError(full).kind, "too_many_bytes");
  EXPECT_TRUE(GetRetryAfter(full).has_value());
  EXPECT_TRUE(budget.Enter(int64_t{40} << 20).ok());
  first->reset();
  EXPECT_TRUE(budget.Enter(int64_t{100} << 20).ok());
}

TEST(ByteBudget, GivesAnyAmountToWhoIsAlone) {
  ByteBudget budget(10, "things");
  auto all = budget.Enter(1000);
  EXPECT_TRUE(all.ok());
  EXPECT_FALSE(budget.Enter(1).ok());
}

}  // namespace
}  // namespace preheat::server
