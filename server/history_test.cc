#include "server/history.h"

#include <gtest/gtest.h>

namespace preheat::server {
namespace {

v1::StatsReply Stats(int64_t hit, int64_t compiled, int64_t failed = 0) {
  v1::StatsReply stats;
  (*stats.mutable_requests())["hit"] = hit;
  (*stats.mutable_requests())["compiled"] = compiled;
  (*stats.mutable_requests())["failed"] = failed;
  return stats;
}

TEST(History, CountsWhatCameInEachMinute) {
  History history;
  history.Sample(60000, Stats(0, 0));
  history.Sample(61000, Stats(3, 1));
  history.Sample(90000, Stats(5, 1, 1));
  history.Sample(125000, Stats(5, 1, 1));
  history.Sample(181000, Stats(9, 1, 1));
  const auto minutes = history.Minutes();
  ASSERT_EQ(minutes.size(), 2u);
  EXPECT_EQ(minutes[0].unix_minute, 1);
  EXPECT_EQ(minutes[0].hit, 5);
  EXPECT_EQ(minutes[0].compiled, 1);
  EXPECT_EQ(minutes[0].bad, 1);
  EXPECT_EQ(minutes[1].unix_minute, 3);
  EXPECT_EQ(minutes[1].total(), 4);
}

TEST(History, ForgetsAfterADay) {
  History history;
  history.Sample(0, Stats(1, 0));
  history.Sample(int64_t{24} * 3600 * 1000 - 1, Stats(1, 0));
  EXPECT_EQ(history.Minutes().size(), 1u);
  history.Sample(int64_t{24} * 3600 * 1000, Stats(1, 0));
  EXPECT_TRUE(history.Minutes().empty());
}

TEST(History, KeepsTheLastCompilesNewestFirst) {
  History history;
  for (int i = 0; i < 60; ++i) {
    History::Compile compile;
    compile.unix_ms = i;
    history.Add(compile);
  }
  const auto compiles = history.Compiles();
  ASSERT_EQ(compiles.size(), 50u);
  EXPECT_EQ(compiles.front().unix_ms, 59);
  EXPECT_EQ(compiles.back().unix_ms, 10);
}

}  // namespace
}  // namespace preheat::server
