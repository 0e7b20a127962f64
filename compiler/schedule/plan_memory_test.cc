#include "compiler/schedule/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace preheat::schedule {
namespace {

using ir::Expr;

const Expr n = Expr::Symbol("d0"), m = Expr::Symbol("d1");

TEST(PlanMemory, WhatDoesNotLiveAtOnceSharesAPlace) {
  const Arena arena = PlanMemory({{1024, 0, 1}, {1000, 1, 2}, {512, 2, 3}, {500, 2, 3}});
  EXPECT_EQ(arena.bytes, Expr(2048));
  EXPECT_EQ(arena.offsets[0], Expr(0));
  EXPECT_EQ(arena.offsets[1], Expr(1024));
  EXPECT_EQ(arena.offsets[2], Expr(0));
  EXPECT_EQ(arena.offsets[3], Expr(512));
}

// The largest first would put the third on top of the second, or the first.
TEST(PlanMemory, OtherOrdersLeaveFewerGaps) {
  const std::vector<Lifetime> lives = {{128, 1, 1}, {64, 2, 4}, {128, 3, 5}, {64, 1, 2}};
  const Arena arena = PlanMemory(lives);
  EXPECT_EQ(arena.bytes, Expr(192));
  for (size_t i = 0; i < lives.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (lives[i].first > lives[j].last || lives[j].first > lives[i].last) continue;
      const int64_t a = *arena.offsets[i].constant(), b = *arena.offsets[j].constant();
      EXPECT_TRUE(a + *lives[i].bytes.constant() <= b || b + *lives[j].bytes.constant() <= a) << i << " and " << j;
    }
  }
}

// Over many random sets, gaps cost a few thousandths of what lives at the fullest step.
TEST(PlanMemory, FewGapsAreLeft) {
  std::mt19937 random(1);
  double sum = 0;
  for (int set = 0; set < 100; ++set) {
    std::vector<Lifetime> lives;
    std::vector<int64_t> live(40, 0);
    for (int i = 0; i < 40; ++i) {
      const int64_t bytes = int64_t{64} << (random() % 6);
      lives.push_back({bytes, i, std::min<int>(39, i + 1 + random() % 6)});
      for (int step = i; step <= lives.back().last; ++step) live[step] += bytes;
    }
    sum += static_cast<double>(*PlanMemory(lives).bytes.constant()) / *std::max_element(live.begin(), live.end());
  }
  EXPECT_LT(sum / 100, 1.004);
}

// Two of 512*d0 lie where one of 1024*d0 was, whatever d0 is.
TEST(PlanMemory, MultiplesOfASymbolShareToo) {
  const Arena arena = PlanMemory({{n * 1024, 0, 1}, {n * 512, 2, 3}, {n * 512, 2, 3}, {64, 0, 3}});
  EXPECT_EQ(arena.bytes, n * 1024 + 64);
}

// Units of a few bytes are rounded up to the alignment, so that every offset is.
TEST(PlanMemory, OffsetsAreAlignedForEverySize) {
  const Arena arena = PlanMemory({{n * 4, 0, 2}, {n * 12, 0, 2}, {n * m * 2 + n, 0, 2}, {n * m * 4 + n * 2, 0, 2}});
  for (int64_t d0 : {1, 7, 64, 1001}) {
    const auto value = [&](const Expr& e) {
      return e.Evaluate([&](const std::string& name) { return name == "d0" ? d0 : int64_t{3}; });
    };
    const int64_t sizes[] = {d0 * 4, d0 * 12, d0 * 7, d0 * 14};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(value(arena.offsets[i]) % kBufferAlignment, 0);
      EXPECT_LE(value(arena.offsets[i]) + sizes[i], value(arena.bytes));
      for (int j = 0; j < i; ++j) {
        const int64_t a = value(arena.offsets[i]), b = value(arena.offsets[j]);
        EXPECT_TRUE(a + sizes[i] <= b || b + sizes[j] <= a) << i << " and " << j << " at " << d0;
      }
    }
  }
}

TEST(PlanMemory, NothingAndEmptyBuffers) {
  EXPECT_EQ(PlanMemory({}).bytes, Expr(0));
  EXPECT_EQ(PlanMemory({{0, 0, 1}}).bytes, Expr(0));
}

}  // namespace
}  // namespace preheat::schedule
