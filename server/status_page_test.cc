#include "server/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/request_chart.h"

namespace preheat::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "<script>alert('x')</script>";
constexpr int64_t kNow = int64_t{1000} * 60 * 1000000;

History::Compile Compile(int64_t unix_ms, const std::string& name, const std::string& key, const std::string& failure) {
  History::Compile compile;
  compile.unix_ms = unix_ms;
  compile.name = name;
  compile.key = key;
  compile.failure = failure;
  return compile;
}

TEST(StatusPage, ShowsWhatGoesOn) {
  Status status;
  status.unix_ms = kNow;
  status.data_dir = "/var/lib/preheat";
  (*status.stats.mutable_requests())["hit"] = 3;
  (*status.stats.mutable_requests())["compiled"] = 1;
  status.stats.set_hit_rate(0.75);
  status.stats.set_uptime_seconds(3725);
  status.gauges.queue_depth = 7;
  v1::WorkerInfo& worker = status.workers.emplace_back();
  worker.set_id("cpu-0");
  worker.set_state("busy");
  worker.set_task("compile bert");
  worker.set_task_seconds(2.5);
  status.minutes.push_back({.unix_minute = kNow / 60000, .hit = 3, .compiled = 1});
  status.compiles.push_back(Compile(kNow - 5000, "bert", std::string(64, 'a'), ""));
  status.compiles.push_back(Compile(kNow - 9000, "vit", "", "task_deadline"));
  const std::string page = StatusPage(status);
  for (const char* part : {"75.0 %", "1 h 02 min", "compile bert, 2.5 s", "/artifact/aaaa", "5 s ago", "task_deadline",
                           "3 hit, 0 coalesced, 1 compiled", "/var/lib/preheat", "<b>7</b>"})
    EXPECT_THAT(page, HasSubstr(part));
  for (const char* outside : {"<script", "http://", "https://", "src="}) EXPECT_THAT(page, Not(HasSubstr(outside)));
}

TEST(StatusPage, WhatClientsSendIsText) {
  Status status;
  status.data_dir = kHostile;
  status.notices.push_back(kHostile);
  status.compiles.push_back(Compile(kNow, kHostile, "", kHostile));
  status.compiles.back().name_space = status.compiles.back().target = kHostile;
  v1::WorkerInfo& worker = status.workers.emplace_back();
  worker.set_id(kHostile);
  worker.set_device(kHostile);
  worker.set_target(kHostile);
  worker.set_state(kHostile);
  worker.set_task(kHostile);
  EXPECT_THAT(StatusPage(status), Not(HasSubstr("<script")));

  v1::Entry entry;
  entry.set_key(kHostile);
  entry.set_name(kHostile);
  entry.set_target(kHostile);
  EXPECT_THAT(ArtifactsPage({entry}, kNow), Not(HasSubstr("<script")));

  v1::Manifest manifest;
  manifest.set_key(kHostile);
  manifest.set_name_space(kHostile);
  manifest.set_target(kHostile);
  manifest.mutable_toolchain()->set_host_compiler(kHostile);
  manifest.mutable_evidence()->set_reason(kHostile);
  manifest.add_symbols()->set_name(kHostile);
  EXPECT_THAT(ArtifactPage({entry, manifest, v1::FusionReport()}, kNow), Not(HasSubstr("<script")));
  EXPECT_THAT(ArtifactPage({entry, manifest, absl::NotFoundError(kHostile)}, kNow), Not(HasSubstr("<script")));
  EXPECT_THAT(ErrorPage(absl::InternalError(kHostile)), Not(HasSubstr("<script")));
}

TEST(StatusPage, ArtifactsAreListedByTheirLastUse) {
  std::vector<v1::Entry> entries(600);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].set_name("model-" + std::to_string(i) + "-");
    entries[i].set_last_used_unix_ms(static_cast<int64_t>(i) + 1);
  }
  const std::string page = ArtifactsPage(entries, kNow);
  EXPECT_LT(page.find("model-599-"), page.find("model-598-"));
  EXPECT_THAT(page, Not(HasSubstr("model-0-")));
  EXPECT_THAT(page, HasSubstr("600 artifacts, the last used 500 of them"));
}

TEST(RequestChart, DrawsAnHourOrADay) {
  EXPECT_THAT(RequestChart({}, kNow), HasSubstr("the last hour"));
  EXPECT_THAT(RequestChart({}, kNow), Not(HasSubstr("<rect")));
  const int64_t minute = kNow / 60000;
  EXPECT_THAT(RequestChart({{.unix_minute = minute, .hit = 1}}, kNow), HasSubstr("hit rate 100.0 %"));
  const std::string day =
      RequestChart({{.unix_minute = minute - 90, .hit = 1}, {.unix_minute = minute, .bad = 2}}, kNow);
  EXPECT_THAT(day, HasSubstr("the last day"));
  EXPECT_THAT(day, HasSubstr("2 failed or refused"));
  // What lies before the first bar is left out.
  EXPECT_THAT(RequestChart({{.unix_minute = minute - 3000, .hit = 1}}, kNow), Not(HasSubstr("<rect")));
}

}  // namespace
}  // namespace preheat::server
