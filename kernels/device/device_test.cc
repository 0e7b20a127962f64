#include "kernels/device/device.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "compiler/support/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/code_file.h"
#include "kernels/device/compile_for_test.h"
#include "kernels/device/cpu_device.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/null_device.h"
#include "kernels/device/parallel_for.h"

namespace preheat {
namespace {

using testing::HasSubstr;

const TestCode& Doubler() {
  static const TestCode& code =
      *new TestCode(CompileForTest("KERNEL(twice) { for (long i = begin; i < end; ++i) F32(0)[i] *= 2; }"));
  return code;
}

TEST(ParallelFor, CoversEveryIndexOnce) {
  for (const int64_t extent : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> seen(extent);
    const int most = MaxThreads();
    ParallelFor(extent, 1, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_LT(thread, most);
      for (int64_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelFor, SmallWorkStaysOnTheCallingThread) {
  EXPECT_EQ(ThreadsFor(1000, 1000), 1);
  EXPECT_EQ(ThreadsFor(1999, 1000), 1);
  EXPECT_EQ(ThreadsFor(2000, 1000), std::min(2, MaxThreads()));
  const ThreadLimit limit(1);
  EXPECT_EQ(ThreadsFor(1 << 20, 1), 1);
}

#if !defined(__SANITIZE_THREAD__)
// libgomp's threads are not in a forked child; a loop there must not wait for them.
TEST(ParallelFor, WorksInAForkedChild) {
  ParallelFor(1000, 1, [](int64_t, int64_t, int) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int64_t sum = 0;
    ParallelFor(1000, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    const ThreadLimit limit(0);
    _exit(sum == 1000 && MaxThreads() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

TEST(CpuFeatures, HostRunsItsOwnTarget) {
  EXPECT_TRUE(CheckHostRuns(HostTarget()).ok());
  EXPECT_THAT(HostTarget(), testing::StartsWith("cpu:"));
}

TEST(CpuFeatures, NamesWhatIsMissing) {
  const absl::Status status = CheckHostRuns("cpu:x86-64-v2+avx2048");
  EXPECT_EQ(GetError(status).kind, "unsupported_cpu");
  EXPECT_THAT(std::string(status.message()), HasSubstr("lacks avx2048"));
  EXPECT_EQ(GetError(CheckHostRuns("cuda:sm_90")).kind, "unsupported_target");
  EXPECT_EQ(GetError(CheckHostRuns("")).kind, "unsupported_target");
}

TEST(CodeFile, LoadsOnceAndNamesFilesByDigest) {
  const TestFolder folder;
  const std::string cache = folder.path + "/cache";
  const auto first = LoadSharedObject({Doubler().digest, Doubler().bytes}, cache);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(std::filesystem::exists(cache + "/" + Doubler().digest + ".so"));
  struct stat info;
  ASSERT_EQ(stat(cache.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const auto second = LoadSharedObject({Doubler().digest, Doubler().bytes}, "");
  EXPECT_EQ(first->get(), second->get());
  EXPECT_TRUE((*first)->Find("twice").ok());
  EXPECT_EQ(GetError((*first)->Find("thrice").status()).kind, "corrupt_artifact");
}

TEST(CodeFile, ReplacesADamagedFile) {
  const TestFolder folder;
  const std::string file = folder.path + "/" + Doubler().digest + ".so";
  std::ofstream(file) << std::string(Doubler().bytes.size(), 'x');
  const auto code = LoadSharedObject({Doubler().digest, Doubler().bytes}, folder.path);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_TRUE((*code)->Find("twice").ok());
}

TEST(CodeFile, RefusesBytesOfAnotherDigest) {
  std::string bytes = Doubler().bytes;
  bytes[100] ^= 1;
  EXPECT_EQ(GetError(LoadSharedObject({Doubler().digest, bytes}, "").status()).kind, "corrupt_artifact");
  const std::string junk = "not an object";
  EXPECT_EQ(GetError(LoadSharedObject({Digest(junk), junk}, "").status()).kind, "corrupt_artifact");
}

TEST(CodeFile, LeavesNothingInThePrivateFolder) {
  const TestFolder folder;
  setenv("TMPDIR", folder.path.c_str(), 1);
  const auto code = LoadSharedObject({Doubler().digest, Doubler().bytes}, "");
  unsetenv("TMPDIR");
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

// Others could put code into such a folder, so it is not used.
TEST(CodeFile, DoesNotLoadFromAFolderThatOthersWrite) {
  const TestFolder folder;
  chmod(folder.path.c_str(), 0777);
  const auto code = LoadSharedObject({Doubler().digest, Doubler().bytes}, folder.path);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(CodeFile, NamesANoexecFolder) {
  const TestFolder folder;
  if (mount("tmpfs", folder.path.c_str(), "tmpfs", MS_NOEXEC, nullptr) != 0) GTEST_SKIP() << "cannot mount here";
  const std::string cache = folder.path + "/cache";
  const absl::Status status = LoadSharedObject({Doubler().digest, Doubler().bytes}, cache).status();
  umount(folder.path.c_str());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetError(status).kind, "noexec_cache_dir");
  EXPECT_THAT(std::string(status.message()), HasSubstr(cache));
}

void LaunchDoubler(Device& device, std::vector<float>& data) {
  const auto code = device.Load({Doubler().digest, Doubler().bytes});
  ASSERT_TRUE(code.ok()) << code.status();
  const auto function = (*code)->Find("twice");
  ASSERT_TRUE(function.ok());
  void* buffers[] = {data.data()};
  Launch launch;
  launch.function = *function;
  launch.buffers = buffers;
  launch.extent = static_cast<int64_t>(data.size());
  launch.grain = 10;
  ASSERT_TRUE(device.Launch(launch, nullptr).ok());
  ASSERT_TRUE(device.Synchronize(nullptr).ok());
}

TEST(CpuDevice, LaunchesOverTheWholeExtent) {
  std::vector<float> data(1001);
  std::iota(data.begin(), data.end(), 0.0f);
  const auto device = NewCpuDevice("");
  LaunchDoubler(*device, data);
  for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i], 2.0f * static_cast<float>(i));
}

TEST(NullDevice, LeavesBuffersAsTheyAre) {
  std::vector<float> data(10, 3.0f);
  const auto device = NewNullDevice();
  LaunchDoubler(*device, data);
  EXPECT_THAT(data, testing::Each(3.0f));
}

TEST(Devices, AllocateAlignedMemoryAndTellTime) {
  for (const auto& device : {NewCpuDevice("").release(), NewNullDevice().release()}) {
    const std::unique_ptr<Device> owned(device);
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{8} << 20}) {
      const auto memory = device->Allocate(bytes);
      ASSERT_TRUE(memory.ok());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 64, 0u);
      std::memset(*memory, 1, static_cast<size_t>(bytes));
      device->Free(*memory);
    }
    EXPECT_FALSE(device->Allocate(INT64_MAX).ok());
    const auto first = device->Record(nullptr), second = device->Record(nullptr);
    EXPECT_GE(device->SecondsBetween(**first, **second).value(), 0);
  }
}

}  // namespace
}  // namespace preheat
