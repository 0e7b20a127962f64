#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "compiler/support/version.h"
#include "server/process_use.h"

namespace preheat::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

constexpr size_t kMostNamespaces = 100;  // more would make a label without bound
constexpr size_t kMostOperators = 300;
constexpr size_t kMostSaved = 100000;

const Histogram::BucketBoundaries& RequestBuckets() {
  static const auto& buckets = *new Histogram::BucketBoundaries{
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800};
  return buckets;
}
const Histogram::BucketBoundaries& SpeedupBuckets() {
  static const auto& buckets = *new Histogram::BucketBoundaries{0.9, 1, 1.05, 1.1, 1.2, 1.5, 2, 3, 5};
  return buckets;
}

Family<Counter>& MakeCounter(Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& MakeGauge(Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}
Family<Histogram>& MakeHistogram(Registry& registry, const char* name, const char* help) {
  return BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

struct Metrics::Families {
  Registry registry;
  Family<Counter>& requests =
      MakeCounter(registry, "preheat_requests_total", "Requests for artifacts, by how they ended");
  Family<Histogram>& request_seconds =
      MakeHistogram(registry, "preheat_request_seconds", "Time until a request was answered");
  Family<Histogram>& compile_seconds =
      MakeHistogram(registry, "preheat_compile_seconds", "Time of each stage of a compile");
  Family<Counter>& saved =
      MakeCounter(registry, "preheat_compile_seconds_saved_total", "Seconds of compilation that hits did not repeat");
  Family<Gauge>& cache_bytes = MakeGauge(registry, "preheat_cache_bytes", "Bytes of all blobs, before compression");
  Family<Gauge>& cache_entries = MakeGauge(registry, "preheat_cache_entries", "Keys with an artifact");
  Counter& evicted =
      MakeCounter(registry, "preheat_cache_evicted_bytes_total", "Bytes of evicted and removed artifacts").Add({});
  Counter& corrupt =
      MakeCounter(registry, "preheat_cache_corrupt_total", "Blobs whose bytes did not match their digest").Add({});
  Family<Counter>& blob_bytes =
      MakeCounter(registry, "preheat_blob_bytes_total", "Blob bytes read from and written to the store");
  Gauge& inflight = MakeGauge(registry, "preheat_inflight", "Distinct requests that somebody waits for").Add({});
  Gauge& queue_depth = MakeGauge(registry, "preheat_queue_depth", "Tasks that wait for a worker").Add({});
  Histogram& queue_seconds =
      MakeHistogram(registry, "preheat_queue_seconds", "How long tasks waited for a worker").Add({}, RequestBuckets());
  Family<Gauge>& workers = MakeGauge(registry, "preheat_workers", "Workers, by device and state");
  Counter& crashes = MakeCounter(registry, "preheat_worker_crashes_total", "Workers that ended unasked").Add({});
  Family<Counter>& tune_seconds = MakeCounter(registry, "preheat_tune_seconds_total", "Device time spent on tuning");
  Histogram& tune_speedup =
      MakeHistogram(registry, "preheat_tune_speedup", "Tuned over default generation").Add({}, SpeedupBuckets());
  Family<Counter>& verified = MakeCounter(registry, "preheat_verified_total", "Artifacts held against the reference");
  Counter& kernels_before =
      MakeCounter(registry, "preheat_kernels_before_total", "Kernels that eager would launch for what was compiled")
          .Add({});
  Counter& kernels_after =
      MakeCounter(registry, "preheat_kernels_after_total", "Launches of the compiled artifacts").Add({});
  Family<Counter>& extern_calls =
      MakeCounter(registry, "preheat_extern_calls_total", "Operators left to the client's framework");
  Family<Gauge>& build_info = MakeGauge(registry, "preheat_build_info", "1; its version is the label");
  Gauge& resident = MakeGauge(registry, "process_resident_memory_bytes", "Resident memory").Add({});
  Gauge& open_files = MakeGauge(registry, "process_open_fds", "Open file descriptors").Add({});
  Gauge& start = MakeGauge(registry, "process_start_time_seconds", "When the process began, since 1970").Add({});
  Counter& cpu = MakeCounter(registry, "process_cpu_seconds_total", "CPU time, of user and system").Add({});
  std::map<std::pair<std::string, std::string>, Gauge*> worker_gauges;
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {
  families_->cache_bytes.Add({});
  families_->cache_entries.Add({});
  for (const char* result : {"ok", "failed", "not_possible"}) families_->verified.Add({{"result", result}});
  for (const char* direction : {"read", "written"}) families_->blob_bytes.Add({{"direction", direction}});
  families_->tune_seconds.Add({{"device", "cpu:0"}});
  families_->saved.Add({{"namespace", "default"}});
  families_->build_info.Add({{"version", Version()}}).Set(1);
  CountRequest("default", "hit", "local", 0);
  for (const char* result : {"hit", "compiled", "coalesced", "negative", "refused", "failed"}) {
    CountRequest("default", result, "server", 0);
    families_->request_seconds.Add({{"result", result}}, RequestBuckets());
  }
}
Metrics::~Metrics() = default;

// Clients choose the names: beyond `most` of them all others are one.
std::string Metrics::Known(std::set<std::string>& known, size_t most, const std::string& name) {
  std::lock_guard lock(mutex_);
  if (known.count(name) == 0 && known.size() >= most) return "other";
  known.insert(name);
  return name;
}

std::string Metrics::KnownNamespace(const std::string& name_space) {
  return Known(namespaces_, kMostNamespaces, name_space);
}

void Metrics::CountRequest(const std::string& name_space, const std::string& result, const std::string& source,
                           int64_t count) {
  families_->requests.Add({{"namespace", KnownNamespace(name_space)}, {"result", result}, {"source", source}})
      .Increment(static_cast<double>(count));
  std::lock_guard lock(mutex_);
  (*stats_.mutable_requests())[result] += count;
}

void Metrics::ObserveRequest(const std::string& result, double seconds) {
  families_->request_seconds.Add({{"result", result}}, RequestBuckets()).Observe(seconds);
}

void Metrics::ObserveCompile(const std::string& target, const v1::StageSeconds& seconds) {
  auto observe = [&](const char* stage, double value) {
    families_->compile_seconds.Add({{"target", target}, {"stage", stage}}, RequestBuckets()).Observe(value);
  };
  observe("import", seconds.import());
  observe("passes", seconds.passes());
  observe("codegen", seconds.codegen());
  observe("compile", seconds.compile());
}

void Metrics::ObserveTuning(const std::string& target, double seconds, double ratio) {
  families_->compile_seconds.Add({{"target", target}, {"stage", "tune"}}, RequestBuckets()).Observe(seconds);
  const std::string device = absl::StartsWith(target, "cuda:") ? "cuda:0" : "cpu:0";
  families_->tune_seconds.Add({{"device", device}}).Increment(seconds);
  if (ratio > 0) families_->tune_speedup.Observe(1 / ratio);
}

void Metrics::ObserveVerify(const std::string& target, double seconds, v1::Evidence::State state) {
  families_->compile_seconds.Add({{"target", target}, {"stage", "verify"}}, RequestBuckets()).Observe(seconds);
  const char* result = state == v1::Evidence::OK ? "ok" : state == v1::Evidence::FAILED ? "failed" : "not_possible";
  families_->verified.Add({{"result", result}}).Increment();
}

void Metrics::CountReport(const v1::FusionReport& report) {
  families_->kernels_before.Increment(report.kernels_before());
  families_->kernels_after.Increment(report.kernels_after());
  for (const v1::ExternCall& call : report.extern_calls()) {
    families_->extern_calls.Add({{"op", Known(operators_, kMostOperators, call.op())}}).Increment(call.count());
  }
}

void Metrics::CountSaved(const std::string& name_space, const std::string& job, const std::string& key,
                         double seconds) {
  {
    std::lock_guard lock(mutex_);
    if (saved_.size() >= kMostSaved) saved_.clear();
    if (!job.empty() && !saved_.emplace(job, key).second) return;
    stats_.set_seconds_saved(stats_.seconds_saved() + seconds);
  }
  families_->saved.Add({{"namespace", KnownNamespace(name_space)}}).Increment(seconds);
}

void Metrics::CountBlobBytes(const std::string& direction, size_t bytes) {
  families_->blob_bytes.Add({{"direction", direction}}).Increment(static_cast<double>(bytes));
}

void Metrics::CountCorrupt() {
  families_->corrupt.Increment();
  std::lock_guard lock(mutex_);
  stats_.set_corrupt(stats_.corrupt() + 1);
}

void Metrics::CountEvicted(int64_t bytes) {
  families_->evicted.Increment(static_cast<double>(bytes));
  std::lock_guard lock(mutex_);
  stats_.set_evicted_bytes(stats_.evicted_bytes() + bytes);
}

void Metrics::ObserveQueue(double seconds) { families_->queue_seconds.Observe(seconds); }

void Metrics::SetCrashes(int64_t total) {
  std::lock_guard lock(mutex_);
  if (total > crashes_) families_->crashes.Increment(static_cast<double>(total - crashes_));
  crashes_ = std::max(crashes_, total);
}

std::string Metrics::Text(const Gauges& gauges) {
  std::lock_guard lock(mutex_);
  families_->cache_bytes.Add({}).Set(static_cast<double>(gauges.cache_bytes));
  families_->cache_entries.Add({}).Set(static_cast<double>(gauges.cache_entries));
  families_->inflight.Set(static_cast<double>(gauges.inflight));
  families_->queue_depth.Set(static_cast<double>(gauges.queue_depth));
  for (auto& [labels, gauge] : families_->worker_gauges) gauge->Set(0);
  for (const auto& [labels, count] : gauges.workers) {
    Gauge& gauge = families_->workers.Add({{"device", labels.first}, {"state", labels.second}});
    families_->worker_gauges[labels] = &gauge;
    gauge.Set(count);
  }
  const ProcessUse use = ReadProcessUse();
  families_->resident.Set(static_cast<double>(use.resident_bytes));
  families_->open_files.Set(static_cast<double>(use.open_files));
  families_->start.Set(use.start_unix_seconds);
  families_->cpu.Increment(std::max(0.0, use.cpu_seconds - families_->cpu.Value()));
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

v1::StatsReply Metrics::Stats() const {
  std::lock_guard lock(mutex_);
  v1::StatsReply stats = stats_;
  auto count = [&](const char* result) {
    auto found = stats.requests().find(result);
    return found == stats.requests().end() ? 0.0 : static_cast<double>(found->second);
  };
  double asked = count("hit") + count("compiled") + count("coalesced");
  stats.set_uptime_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
  stats.set_hit_rate(asked > 0 ? count("hit") / asked : 0);
  return stats;
}

}  // namespace preheat::server
