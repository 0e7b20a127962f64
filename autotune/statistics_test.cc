#include "autotune/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace preheat::autotune {
namespace {

TEST(Statistics, Medians) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

TEST(Statistics, FewRoundsSayNothing) {
  Ratio ratio = MedianRatio({1, 1, 1, 1, 1}, {2, 2, 2, 2, 2});
  EXPECT_EQ(ratio.value, 0.5);
  EXPECT_EQ(ratio.low, 0);
  EXPECT_TRUE(std::isinf(ratio.high));
}

// n = 6: the extremes; n = 20: ranks 6 and 15, as tables of the sign test have it.
TEST(Statistics, IntervalsAreThoseOfTheSignTest) {
  std::vector<double> ones(20, 1), rising;
  for (int i = 1; i <= 20; ++i) rising.push_back(i);
  Ratio ratio = MedianRatio(rising, ones);
  EXPECT_EQ(ratio.low, 6);
  EXPECT_EQ(ratio.high, 15);
  rising.resize(6), ones.resize(6);
  ratio = MedianRatio(rising, ones);
  EXPECT_EQ(ratio.low, 1);
  EXPECT_EQ(ratio.high, 6);
}

// Two equal things: an interval that leaves out 1 on the fast side comes up in at most 2.5% of experiments.
TEST(Statistics, NoiseIsSeldomTakenForSpeed) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> noise(0, 0.3);
  int fooled = 0;
  for (int experiment = 0; experiment < 2000; ++experiment) {
    std::vector<double> a, b;
    for (int i = 0; i < 25; ++i) a.push_back(noise(random)), b.push_back(noise(random));
    fooled += MedianRatio(a, b).high < 1;
  }
  EXPECT_LT(fooled, 2000 * 0.035);
}

std::vector<std::vector<double>> Noisy(const std::vector<double>& medians, int rounds, std::mt19937_64& random) {
  std::lognormal_distribution<double> noise(0, 0.2);
  std::vector<std::vector<double>> times(medians.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < medians.size(); ++i) times[i].push_back(medians[i] * noise(random));
  }
  return times;
}

// Eight equal things: the least median lies 6% below the first's as a rule, and is no faster.
TEST(Statistics, TheFastestOfEqualsIsNoFaster) {
  std::mt19937_64 random(7);
  double least = 0, split = 0;
  constexpr int kExperiments = 400;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    const auto times = Noisy(std::vector<double>(8, 5.0), 31, random);
    const auto first = Noisy(std::vector<double>(8, 5.0), 15, random);
    const auto second = Noisy(std::vector<double>(8, 5.0), 16, random);
    double fastest = Median(times[0]);
    for (const auto& one : times) fastest = std::min(fastest, Median(one));
    least += fastest / Median(times[0]) / kExperiments;
    split += FastestRatio(first, second) / kExperiments;
  }
  EXPECT_LT(least, 0.95);
  EXPECT_GT(split, 0.97);
}

TEST(Statistics, OneThatIsFasterIsFound) {
  std::mt19937_64 random(7);
  double ratio = 0;
  for (int experiment = 0; experiment < 200; ++experiment) {
    const auto first = Noisy({5, 6, 4, 5}, 15, random), second = Noisy({5, 6, 4, 5}, 15, random);
    ratio += FastestRatio(first, second) / 200;
  }
  EXPECT_NEAR(ratio, 0.8, 0.02);
  const Times faster = {{4, 4}, {2, 2}}, slower = {{2, 2}, {4, 4}};
  EXPECT_EQ(FastestRatio(faster, faster), 0.5);
  EXPECT_EQ(FastestRatio(slower, slower), 1);
  EXPECT_EQ(FastestRatio(faster, slower), 1);      // (2 + 1) / 2: lucky where it was chosen
  EXPECT_EQ(FastestRatio(faster, {{4}, {2}}), 1);  // too few to tell
}

}  // namespace
}  // namespace preheat::autotune
