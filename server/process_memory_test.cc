#include "server/process_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace preheat::server {
namespace {

TEST(ProcessMemory, CountsChildrenToo) {
  const int64_t alone = ResidentBytesWithChildren(getpid());
  EXPECT_GT(alone, 1 << 20);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr size_t kBytes = size_t{64} << 20;
    auto memory = std::make_unique<char[]>(kBytes);
    std::memset(memory.get(), 1, kBytes);
    ssize_t written = write(ready[1], memory.get(), 1);
    while (written == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GT(ResidentBytesWithChildren(getpid()), alone + (int64_t{64} << 20));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ResidentBytesWithChildren(child), 0) << "a process that is gone";
}

TEST(ProcessMemory, KnowsTheMachine) { EXPECT_GT(MachineMemoryBytes(), int64_t{64} << 20); }

}  // namespace
}  // namespace preheat::server
