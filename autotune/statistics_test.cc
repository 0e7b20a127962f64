#include "autotune/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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

}  // namespace
}  // namespace preheat::autotune
