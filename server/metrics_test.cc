#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace preheat::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, ShowsEveryNameOfTheInterfaceFromTheStart) {
  Metrics metrics;
  metrics.ObserveRequest("hit", 0.001);
  metrics.ObserveCompile("cpu:x86-64-v3", v1::StageSeconds());
  v1::FusionReport report;
  report.add_extern_calls()->set_op("aten.sort.stable");
  metrics.CountReport(report);
  Gauges gauges;
  gauges.workers[{"cpu:0", "idle"}] = 1;
  std::string text = metrics.Text(gauges);
  for (const char* name : {"preheat_requests_total{",
                           "preheat_request_seconds_bucket{",
                           "preheat_compile_seconds_bucket{",
                           "preheat_compile_seconds_saved_total{",
                           "preheat_cache_bytes ",
                           "preheat_cache_entries ",
                           "preheat_cache_evicted_bytes_total ",
                           "preheat_cache_corrupt_total ",
                           "preheat_blob_bytes_total{",
                           "preheat_inflight ",
                           "preheat_queue_depth ",
                           "preheat_queue_seconds_bucket{",
                           "preheat_workers{",
                           "preheat_worker_crashes_total ",
                           "preheat_tune_seconds_total{",
                           "preheat_tune_speedup_bucket{",
                           "preheat_verified_total{",
                           "preheat_kernels_before_total ",
                           "preheat_kernels_after_total ",
                           "preheat_extern_calls_total{",
                           "preheat_build_info{",
                           "process_resident_memory_bytes ",
                           "process_start_time_seconds ",
                           "process_cpu_seconds_total "}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + name));
  }
}

TEST(Metrics, CountsSavedSecondsOnceForAJobAndKey) {
  Metrics metrics;
  metrics.CountSaved("default", "job", "key", 2);
  metrics.CountSaved("default", "job", "key", 2);
  metrics.CountSaved("default", "job", "other", 3);
  metrics.CountSaved("default", "", "key", 5);
  metrics.CountSaved("default", "", "key", 5);
  EXPECT_EQ(metrics.Stats().seconds_saved(), 15);
  EXPECT_THAT(metrics.Text({}), HasSubstr("preheat_compile_seconds_saved_total{namespace=\"default\"} 15"));
}

TEST(Metrics, ForgetsWorkersThatAreGone) {
  Metrics metrics;
  Gauges gauges;
  gauges.workers[{"cpu:0", "busy"}] = 2;
  EXPECT_THAT(metrics.Text(gauges), HasSubstr("preheat_workers{device=\"cpu:0\",state=\"busy\"} 2"));
  EXPECT_THAT(metrics.Text({}), HasSubstr("preheat_workers{device=\"cpu:0\",state=\"busy\"} 0"));
}

TEST(Metrics, BoundsTheNamespaces) {
  Metrics metrics;
  for (int i = 0; i < 200; ++i) metrics.CountRequest("n" + std::to_string(i), "hit", "local");
  std::string text = metrics.Text({});
  EXPECT_THAT(text, HasSubstr("namespace=\"other\""));
  EXPECT_THAT(text, Not(HasSubstr("namespace=\"n150\"")));
  EXPECT_EQ(metrics.Stats().requests().at("hit"), 200);
  EXPECT_EQ(metrics.Stats().hit_rate(), 1);
}

}  // namespace
}  // namespace preheat::server
