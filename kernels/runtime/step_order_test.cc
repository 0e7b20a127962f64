#include "kernels/runtime/step_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace preheat::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kLarge = 8 << 20, kSmall = 4096;

// A plan of kernels, which is only looked at.
class PlanOfKernels {
 public:
  uint32_t Arena(int64_t offset, int64_t bytes) { return Buffer(plan::Storage::Arena, 0, offset, bytes); }
  uint32_t Input(uint32_t index, int64_t bytes) { return Buffer(plan::Storage::Input, index, 0, bytes); }
  uint32_t Output(uint32_t index, int64_t bytes) { return Buffer(plan::Storage::Output, index, 0, bytes); }

  void Kernel(const std::vector<uint32_t>& reads, const std::vector<uint32_t>& writes, int64_t extent = 1) {
    BoundKernel kernel = {};
    kernel.first_argument = static_cast<uint32_t>(plan_.arguments.size());
    kernel.num_arguments = static_cast<uint32_t>(reads.size() + writes.size());
    kernel.extent = extent;
    kernel.grid[0] = 1;
    for (const uint32_t buffer : reads) plan_.arguments.push_back(buffer), plan_.written.push_back(0);
    for (const uint32_t buffer : writes) plan_.arguments.push_back(buffer), plan_.written.push_back(1);
    plan_.steps.push_back({plan::StepKind::KernelStep, static_cast<uint32_t>(plan_.kernels.size())});
    plan_.kernels.push_back(kernel);
  }

  StepOrder Order() const { return OrderSteps(plan_); }

 private:
  uint32_t Buffer(plan::Storage storage, uint32_t index, int64_t offset, int64_t bytes) {
    BoundBuffer buffer = {};
    buffer.storage = storage, buffer.index = index, buffer.offset = offset, buffer.bytes = bytes;
    plan_.buffers.push_back(buffer);
    return static_cast<uint32_t>(plan_.buffers.size() - 1);
  }

  BoundPlan plan_;
};

TEST(StepOrder, ShortStepsGoOneAfterAnother) {
  PlanOfKernels p;
  const uint32_t x = p.Input(0, kSmall);
  for (uint32_t i = 0; i < 4; ++i) p.Kernel({x}, {p.Output(i, kSmall)});
  const StepOrder order = p.Order();
  EXPECT_THAT(order.lane, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(order.before[0], IsEmpty());
  for (uint32_t i = 1; i < 4; ++i) EXPECT_THAT(order.before[i], ElementsAre(i - 1));
}

// A layer's gradients: the weight's, which is only a result, beside those that go on; what adds it up follows it.
TEST(StepOrder, LongStepsThatNobodyWaitsForGoBeside) {
  PlanOfKernels p;
  const uint32_t x = p.Input(0, kLarge), a = p.Arena(0, kLarge), b = p.Arena(kLarge, kLarge);
  const uint32_t parts = p.Arena(2 * kLarge, kLarge);
  p.Kernel({x}, {a});                        // 0
  p.Kernel({a}, {parts});                    // 1: long, wanted by 2 alone
  p.Kernel({parts}, {p.Output(0, kSmall)});  // 2: for which nobody waits
  p.Kernel({a}, {b});                        // 3
  p.Kernel({b}, {p.Output(1, kLarge)});      // 4
  const StepOrder order = p.Order();
  EXPECT_THAT(order.lane, ElementsAre(0, 1, 1, 0, 0));
  EXPECT_THAT(order.before[1], ElementsAre(0));
  EXPECT_THAT(order.before[2], ElementsAre(1));
  EXPECT_THAT(order.before[3], ElementsAre(0));
  EXPECT_THAT(order.before[4], ElementsAre(3));
}

TEST(StepOrder, MemoryIsUsedAgainWhenAllHaveReadIt) {
  PlanOfKernels p;
  const uint32_t x = p.Input(0, kLarge), a = p.Arena(0, kLarge), b = p.Arena(kLarge, kLarge);
  const uint32_t c = p.Arena(2 * kLarge, kLarge), over = p.Arena(kLarge / 2, kLarge / 2);  // in a
  p.Kernel({x}, {a});                                                                      // 0
  p.Kernel({a}, {p.Output(0, kLarge)});                                                    // 1, beside what follows
  p.Kernel({x}, {b});                                                                      // 2
  p.Kernel({b}, {c});                                                                      // 3
  p.Kernel({c}, {over});                                                                   // 4
  p.Kernel({over}, {p.Output(1, kSmall)});
  const StepOrder order = p.Order();
  EXPECT_THAT(order.lane, ElementsAre(0, 1, 0, 0, 0, 0));
  EXPECT_THAT(order.before[4], ElementsAre(3, 1));
  EXPECT_THAT(order.before[5], ElementsAre(4));
}

TEST(StepOrder, InputsMayBeOneMemoryWhereOneIsWritten) {
  PlanOfKernels p;
  const uint32_t x = p.Input(0, kLarge), y = p.Input(1, kLarge);
  for (uint32_t i = 0; i < 3; ++i) p.Kernel({i == 0 ? x : y}, {p.Output(i, kLarge)});
  p.Kernel({}, {y});
  const StepOrder order = p.Order();
  EXPECT_THAT(order.lane, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(order.before[3], ElementsAre(2, 0));
}

TEST(StepOrder, NobodyWaitsForIdleKernels) {
  PlanOfKernels p;
  const uint32_t x = p.Input(0, kSmall), a = p.Arena(0, kSmall);
  p.Kernel({x}, {a});
  p.Kernel({x}, {a}, /*extent=*/0);
  p.Kernel({a}, {p.Output(0, kSmall)});
  EXPECT_THAT(p.Order().before[2], ElementsAre(0));
}

}  // namespace
}  // namespace preheat::runtime
