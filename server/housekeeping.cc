#include "server/housekeeping.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "cache/clock.h"

namespace preheat::server {
namespace {

constexpr int kFlushEvery = 5;      // seconds
constexpr int kCleanUpEvery = 600;  // seconds
constexpr int64_t kSweepAgeMs = int64_t{3600} * 1000;
constexpr char kToolchainKey[] = "toolchain";

void Warn(const char* what, const absl::Status& status) {
  if (!status.ok()) spdlog::warn("{}: {}", what, std::string(status.message()));
}

}  // namespace

Housekeeping::Housekeeping(Services& services, cache::Store& store, int64_t max_cache_bytes, Tokens* tokens)
    : services_(services), store_(store), max_cache_bytes_(max_cache_bytes), tokens_(tokens), thread_([this] {
        Loop();
      }) {}

Housekeeping::~Housekeeping() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  Flush();
}

void Housekeeping::Loop() {
  std::unique_lock lock(mutex_);
  for (int second = 1; !changed_.wait_for(lock, std::chrono::seconds(1), [&] { return stopping_; }); ++second) {
    lock.unlock();
    Often();
    if (second % kFlushEvery == 0) Flush();
    if (second % kCleanUpEvery == 0) CleanUp();
    lock.lock();
  }
}

void Housekeeping::Often() {
  services_.pool.Tick();
  services_.inflight.Beat();
  for (double seconds : services_.pool.TakeQueueSeconds()) services_.metrics.ObserveQueue(seconds);
  services_.metrics.SetCrashes(services_.pool.Count().crashes);
  services_.history.Sample(cache::SystemNowMs(), services_.metrics.Stats());
}

void Housekeeping::Flush() {
  Warn("uses not kept", services_.index.uses().Flush());
  KeepToolchain();
  if (tokens_ != nullptr) Warn("token file not read again", tokens_->Refresh());
}

void Housekeeping::KeepToolchain() {
  std::optional<v1::Toolchain> toolchain = services_.pool.toolchain();
  if (!toolchain || toolchain->SerializeAsString() == kept_toolchain_) return;
  kept_toolchain_ = toolchain->SerializeAsString();
  Warn("toolchain not kept",
       store_.Write({{cache::Table::kMeta, kToolchainKey, kept_toolchain_}}, cache::Durability::kLazy));
}

void Housekeeping::CleanUp() {
  if (max_cache_bytes_ > 0) {
    auto evicted = services_.index.EvictTo(max_cache_bytes_);
    Warn("eviction", evicted.status());
    if (evicted.ok()) services_.metrics.CountEvicted(*evicted);
  }
  Warn("sweep", services_.index.Sweep(kSweepAgeMs, /*dry_run=*/false).status());
}

void RestoreToolchain(cache::Store& store, Pool& pool) {
  auto bytes = store.Get(cache::Table::kMeta, kToolchainKey);
  v1::Toolchain toolchain;
  if (bytes.ok() && *bytes && toolchain.ParseFromString(**bytes)) pool.set_toolchain(toolchain);
}

}  // namespace preheat::server
