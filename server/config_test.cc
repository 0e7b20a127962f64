#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "compiler/support/error.h"

namespace preheat::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

absl::StatusOr<Config> Read(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "preheatd");
  return ReadConfig(static_cast<int>(flags.size()), flags.data());
}

std::string File(const std::string& text) {
  std::string path = testing::TempDir() + "/preheatd.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(Config, FlagsWinOverTheFile) {
  std::string path = File("port: 1\nworkers: 3\nverify: false\ndata_dir: /data\n");
  auto config = Read({"--config", path.c_str(), "--port", "2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->port, 2);
  EXPECT_EQ(config->workers, 3);
  EXPECT_FALSE(config->verify);
  EXPECT_EQ(config->data_dir, "/data");
  EXPECT_EQ(config->http_port, 9433);
}

TEST(Config, NamesTheLineOfAMistake) {
  for (auto [text, at, says] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"port: 1\nworker: 3\n", ":2:1", "no such setting: worker"},
           {"port: many\n", ":1:7", "port cannot be \"many\""},
           {"\n\nport: 70000\n", ":3:7", "port is 70000"},
           {"log_level: loud\n", ":1:12", "log_level is \"loud\""},
           {"- a\n", ":1:1", "no map"},
           {"port: [1\n", ":2:1", ""}}) {
    std::string path = File(text);
    auto config = Read({"--config", path.c_str()});
    ASSERT_FALSE(config.ok());
    Error error = GetError(config.status());
    EXPECT_EQ(error.kind, "invalid_config");
    EXPECT_THAT(error.where, EndsWith(at));
    EXPECT_THAT(error.message, HasSubstr(says));
  }
}

TEST(Config, RefusesUnknownAndWildFlags) {
  EXPECT_EQ(GetError(Read({"--prot", "1"}).status()).kind, "invalid_config");
  EXPECT_EQ(GetError(Read({"--port", "-1"}).status()).where, "--port");
  EXPECT_EQ(GetError(Read({"--config", "/nonexistent"}).status()).kind, "invalid_config");
}

TEST(Config, WhatIsPrintedIsReadTheSame) {
  const auto printed = Read({"--check-config", "--port", "5", "--log-format", "json", "--data-dir", "a: b"});
  ASSERT_EQ(printed.status().code(), absl::StatusCode::kCancelled);
  const std::string path = File(std::string(printed.status().message()));
  const auto config = Read({"--config", path.c_str()});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->port, 5);
  EXPECT_EQ(config->log_format, "json");
  EXPECT_EQ(config->data_dir, "a: b");
  EXPECT_EQ(GetError(Read({"--check-config", "--port", "70000"}).status()).kind, "invalid_config");
}

// deploy/preheatd.yaml documents every setting, each with its default but for the folder of a real installation.
TEST(Config, TheDocumentedFileHoldsEverySettingAtItsDefault) {
  const auto defaults = Read({"--check-config", "--data-dir", "/var/lib/preheat"});
  const auto file = Read({"--check-config", "--config", PREHEAT_SOURCE_DIR "/deploy/preheatd.yaml"});
  ASSERT_EQ(file.status().code(), absl::StatusCode::kCancelled) << file.status();
  EXPECT_EQ(defaults.status().message(), file.status().message());
  std::ifstream in(PREHEAT_SOURCE_DIR "/deploy/preheatd.yaml");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::istringstream settings{std::string(defaults.status().message())};
  for (std::string line; std::getline(settings, line);) {
    const std::string name = line.substr(0, line.find(':') + 1);
    EXPECT_THAT(text, HasSubstr("\n" + name)) << "deploy/preheatd.yaml leaves it out";
  }
}

TEST(Config, HelpIsNoMistake) {
  auto help = Read({"--help"});
  EXPECT_EQ(help.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(help.status().message()), HasSubstr("--drain-seconds"));
}

}  // namespace
}  // namespace preheat::server
