#include "compiler/codegen/cuda/nvrtc_helpers.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace preheat::codegen {
namespace {

const std::string kSource = "extern \"C\" __global__ void twice(float* p) { p[threadIdx.x] *= 2; }";

std::string Program() { return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "preheat-nvrtc"; }

class NvrtcHelperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!NvrtcVersion().ok()) GTEST_SKIP() << NvrtcVersion().status().message();
    flags_ = NvrtcFlags(*ParseCudaTarget("cuda:sm_80"));
    helper_ = NvrtcHelper::Start(Program(), *NvrtcVersion());
    ASSERT_NE(helper_, nullptr);
  }
  std::vector<std::string> flags_;
  std::unique_ptr<NvrtcHelper> helper_;
};

TEST_F(NvrtcHelperTest, GivesTheBytesThatThisProcessWould) {
  const absl::StatusOr<Cubin> here = CompileCubin(kSource, flags_);
  ASSERT_TRUE(here.ok()) << here.status();
  for (int i = 0; i < 2; ++i) {
    const std::optional<Cubin> there = helper_->Compile(kSource, flags_);
    ASSERT_TRUE(there.has_value());
    EXPECT_EQ(there->bytes, here->bytes);
    EXPECT_EQ(there->registers, here->registers);
    EXPECT_EQ(there->spill_bytes, here->spill_bytes);
  }
}

TEST_F(NvrtcHelperTest, GoesOnAfterAKernelThatDoesNotCompile) {
  EXPECT_FALSE(helper_->Compile("this is no kernel", flags_).has_value());
  EXPECT_TRUE(helper_->alive());
  EXPECT_TRUE(helper_->Compile(kSource, flags_).has_value());
}

TEST_F(NvrtcHelperTest, OneThatIsKilledIsNoticedAndTakesNoMoreWork) {
  kill(helper_->pid(), SIGKILL);
  EXPECT_FALSE(helper_->Compile(kSource, flags_).has_value());
  EXPECT_FALSE(helper_->alive());
  NvrtcHelpers helpers;
  helpers.Give(std::move(helper_));
  EXPECT_EQ(helpers.Take(), nullptr);
}

TEST_F(NvrtcHelperTest, EndsWithItsOwner) {
  const pid_t pid = helper_->pid();
  helper_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(NvrtcHelperTest, OfAnotherVersionIsNotUsed) {
  EXPECT_EQ(NvrtcHelper::Start(Program(), "nvrtc 1.0"), nullptr);
  EXPECT_EQ(NvrtcHelper::Start("/no/such/program", *NvrtcVersion()), nullptr);
}

TEST_F(NvrtcHelperTest, AreLentOneByOne) {
  NvrtcHelpers helpers;
  helpers.Start(Program(), 2);
  std::unique_ptr<NvrtcHelper> one = helpers.Take(), two = helpers.Take();
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_NE(one->pid(), two->pid());
  EXPECT_EQ(helpers.Take(), nullptr);
  helpers.Give(std::move(one));
  EXPECT_NE(helpers.Take(), nullptr);
}

TEST_F(NvrtcHelperTest, ManySourcesComeInTheirOrderAndErrorsKeepTheirWords) {
  NvrtcHelpers::OfProcess().Give(std::move(helper_));  // whatever this machine would start
  std::vector<std::string> sources;
  for (int i = 0; i < 5; ++i) {
    sources.push_back("extern \"C\" __global__ void k" + std::to_string(i) + "(int* p) { *p = " + std::string(i, '-') +
                      "1; }");
  }
  const CudaTarget target = *ParseCudaTarget("cuda:sm_80");
  absl::StatusOr<std::vector<Cubin>> cubins = CompileCubins(sources, target, 3, nullptr);
  ASSERT_FALSE(cubins.ok());  // --1 is an error
  EXPECT_NE(cubins.status().message().find("error"), std::string::npos) << cubins.status();
  sources.resize(2);
  cubins = CompileCubins(sources, target, 3, nullptr);
  ASSERT_TRUE(cubins.ok()) << cubins.status();
  for (int i = 0; i < 2; ++i) EXPECT_NE((*cubins)[i].bytes.find("k" + std::to_string(i)), std::string::npos);
}

}  // namespace
}  // namespace preheat::codegen
