#include "autotune/device_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace preheat::autotune {
namespace {

using Kind = DeviceLock::Kind;

class DeviceLockTest : public testing::Test {
 protected:
  const std::string device_ =
      absl::StrCat("test-", getpid(), "-", testing::UnitTest::GetInstance()->current_test_info()->name());
  void TearDown() override {
    const char* folder = std::getenv("TMPDIR");
    for (const char* end : {".lock", "-work.lock"}) {
      unlink(absl::StrCat(folder != nullptr ? folder : "/tmp", "/preheat-", getuid(), "-", device_, end).c_str());
    }
  }
};

// A request never waits for a measurement, which learns that it was disturbed, even by what is over already.
TEST_F(DeviceLockTest, WhoWorksDoesNotWaitForWhoMeasures) {
  const DeviceLock measures(device_, Kind::kExclusive, nullptr);
  ASSERT_TRUE(measures.held());
  EXPECT_FALSE(measures.Disturbed());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // files' times are no finer than the kernel's clock
  {
    const DeviceLock works(device_, Kind::kShared, nullptr), another(device_, Kind::kShared, nullptr);
    EXPECT_TRUE(works.held() && another.held());
    EXPECT_TRUE(measures.Disturbed());
  }
  EXPECT_TRUE(measures.Disturbed());
}

TEST_F(DeviceLockTest, WhoMeasuresWaitsForAllOthers) {
  std::optional<DeviceLock> works(std::in_place, device_, Kind::kShared, nullptr);
  std::optional<DeviceLock> measures;
  std::atomic<bool> begun = false;
  std::thread waits([&] {
    measures.emplace(device_, Kind::kExclusive, nullptr);
    begun = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(begun);
  works.reset();
  waits.join();
  EXPECT_TRUE(measures->held());
  EXPECT_FALSE(measures->Disturbed());
  std::atomic<bool> cancelled = true;
  EXPECT_FALSE(DeviceLock(device_, Kind::kExclusive, &cancelled).held()) << "another measures";
  measures.reset();
  EXPECT_TRUE(DeviceLock(device_, Kind::kExclusive, &cancelled).held());
}

}  // namespace
}  // namespace preheat::autotune
