#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "client/load/made_programs.h"
#include "client/load/run_load.h"
#include "client/load/tally.h"
#include "compiler/support/error.h"

namespace preheat::load {
namespace {

TEST(MadePrograms, AreTheSameAgainAndDistinct) {
  EXPECT_EQ(MakeProgram(7, 3).SerializeAsString(), MakeProgram(7, 3).SerializeAsString());
  std::set<std::string> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 21, uint64_t{1} << 41, (uint64_t{1} << 59) + 5}) {
    for (uint32_t index = 0; index < 200; ++index) seen.insert(MakeProgram(seed, index).SerializeAsString());
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Tally, QuantilesAreValuesThatWereSeen) {
  std::vector<double> sorted;
  for (int i = 1; i <= 100; ++i) sorted.push_back(i);
  EXPECT_EQ(Quantile(sorted, 0.5), 50);
  EXPECT_EQ(Quantile(sorted, 0.99), 99);
  EXPECT_EQ(Quantile({5}, 0.99), 5);
  EXPECT_TRUE(std::isnan(Quantile({}, 0.5)));
}

TEST(Tally, MergesAndKeepsTheFirstError) {
  Tally a, b;
  b.AddError("b");
  b.AddError("c");
  b.hit_ms = {2};
  b.bytes = 5;
  a.hit_ms = {1};
  a.Merge(b);
  EXPECT_EQ(a.errors, 2);
  EXPECT_EQ(a.first_error, "b");
  EXPECT_EQ(a.hit_ms.size(), 2u);
  EXPECT_EQ(a.bytes, 5);
}

TEST(RunLoad, SaysWhatIsWrongWithItsOptions) {
  const auto quiet = [](const std::string&) {};
  LoadOptions options;
  options.client.server = "127.0.0.1:1";
  options.client.attempts = 1;
  EXPECT_EQ(GetError(RunLoad(options, quiet).status()).kind, "unreachable");
  options.clients = 0;
  EXPECT_EQ(GetError(RunLoad(options, quiet).status()).where, "--clients");
  options.clients = 1;
  options.miss_share = NAN;
  EXPECT_EQ(GetError(RunLoad(options, quiet).status()).where, "--miss-share");
  options.miss_share = 0;
  options.program = "/nowhere/model.pt2";
  EXPECT_EQ(GetError(RunLoad(options, quiet).status()).kind, "no_such_file");
}

}  // namespace
}  // namespace preheat::load
