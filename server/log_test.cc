#include "server/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace preheat::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string LogOf(const std::string& format) {
  SetUpLog("info", format);
  testing::internal::CaptureStderr();
  spdlog::info("draining: {} s", 30);
  spdlog::debug("not shown");
  LogEvent(spdlog::level::warn, "request",
           {{"request_id", "ab12"}, {"name", "bert\n\"x\" \xff"}, {"generation", int64_t{3}}, {"seconds", 0.25}});
  spdlog::default_logger()->flush();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, JsonIsOneObjectALine) {
  std::istringstream lines(LogOf("json"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["message"], "draining: 30 s");
  EXPECT_EQ(first["level"], "info");
  EXPECT_THAT(first["time"].get<std::string>(), testing::MatchesRegex("....-..-..T..:..:......Z"));
  ASSERT_TRUE(std::getline(lines, line));
  auto second = nlohmann::json::parse(line);
  EXPECT_EQ(second["message"], "request");
  EXPECT_EQ(second["level"], "warning");
  EXPECT_EQ(second["request_id"], "ab12");
  EXPECT_THAT(second["name"].get<std::string>(), HasSubstr("bert\n\"x\""));
  EXPECT_EQ(second["generation"], 3);
  EXPECT_EQ(second["seconds"], 0.25);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(Log, TextStaysOnItsLine) {
  const std::string text = LogOf("text");
  EXPECT_THAT(text, HasSubstr("draining: 30 s"));
  EXPECT_THAT(text, HasSubstr("request request_id=ab12 name=\"bert?\"x\" ?\" generation=3 seconds=0.250"));
  EXPECT_THAT(text, Not(HasSubstr("not shown")));
}

}  // namespace
}  // namespace preheat::server
