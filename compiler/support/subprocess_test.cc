#include "compiler/support/subprocess.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "compiler/support/error.h"

namespace preheat {
namespace {

TEST(Subprocess, TellsHowItEnded) {
  auto process = Subprocess::Start({"sh", "-c", "exit 3"});
  ASSERT_TRUE(process.ok()) << process.status();
  ProcessEnd end = (*process)->Wait();
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_FALSE(end.Clean());
  EXPECT_EQ(end.ToString(), "exit status 3");
}

TEST(Subprocess, ReadsWhatItIsGiven) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  SubprocessOptions options;
  options.input = ends[0];
  auto process = Subprocess::Start({"sh", "-c", "read status; exit $status"}, options);
  close(ends[0]);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(write(ends[1], "5\n", 2), 2);
  close(ends[1]);
  EXPECT_EQ((*process)->Wait().exit_code, 5);
}

// Gone, or dead and not yet reaped by whoever inherited it.
bool IsDead(const std::string& pid) {
  std::string number, name, state;
  std::ifstream stat("/proc/" + pid + "/stat");
  return !(stat >> number >> name >> state) || state == "Z";
}

TEST(Subprocess, IsKilledWithItsChildren) {
  std::string log = testing::TempDir() + "/subprocess_child";
  std::remove(log.c_str());
  auto process = Subprocess::Start({"sh", "-c", "sleep 600 & echo $!; wait"}, {.log_file = log, .environment = {}});
  ASSERT_TRUE(process.ok());
  std::string child;
  while (!(std::ifstream(log) >> child)) usleep(10000);
  EXPECT_FALSE(IsDead(child));
  (*process)->Kill(SIGKILL);
  EXPECT_EQ((*process)->Wait().signal, SIGKILL);
  for (int i = 0; i < 100 && !IsDead(child); ++i) usleep(20000);
  EXPECT_TRUE(IsDead(child));
}

TEST(Subprocess, AppendsItsOutputToTheLog) {
  std::string log = testing::TempDir() + "/subprocess_test.log";
  std::remove(log.c_str());
  for (const char* text : {"echo one", "echo two >&2"}) {
    auto process = Subprocess::Start({"sh", "-c", text}, {.log_file = log, .environment = {}});
    ASSERT_TRUE(process.ok());
    EXPECT_TRUE((*process)->Wait().Clean());
  }
  std::stringstream content;
  content << std::ifstream(log).rdbuf();
  EXPECT_EQ(content.str(), "one\ntwo\n");
}

TEST(Subprocess, SetsItsEnvironment) {
  setenv("PREHEAT_TEST_A", "old", 1);
  auto process =
      Subprocess::Start({"sh", "-c", "test $PREHEAT_TEST_A$PREHEAT_TEST_B = newb"},
                        {.log_file = "", .environment = {{"PREHEAT_TEST_A", "new"}, {"PREHEAT_TEST_B", "b"}}});
  ASSERT_TRUE(process.ok());
  EXPECT_TRUE((*process)->Wait().Clean());
}

TEST(Subprocess, NamesAProgramThatIsNotThere) {
  auto process = Subprocess::Start({"/nonexistent/program"});
  ASSERT_FALSE(process.ok());
  EXPECT_EQ(process.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(GetError(process.status()).kind, "cannot_start_process");
}

}  // namespace
}  // namespace preheat
