#include "client/cpp/backoff.h"

#include <gtest/gtest.h>

namespace preheat {
namespace {

TEST(Backoff, DoublesWithinItsBounds) {
  Backoff backoff(7);
  absl::Duration ceiling = absl::Milliseconds(50);
  for (int i = 0; i < 12; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, ceiling / 2);
    EXPECT_LE(wait, ceiling);
    ceiling = std::min(ceiling * 2, absl::Seconds(2));
  }
}

TEST(Backoff, SeedsPartCompanyAtOnce) { EXPECT_NE(Backoff(1).Next(), Backoff(2).Next()); }

}  // namespace
}  // namespace preheat
