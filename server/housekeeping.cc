#include "server/housekeeping.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "cache/clock.h"

namespace preheat::server {
namespace {

constexpr int kFlushEvery = 5;  // seconds
constexpr char kToolchainKey[] = "toolchain";

void Warn(const char* what, const absl::Status& status) {
  if (!status.ok()) spdlog::warn("{}: {}", what, std::string(status.message()));
}

}  // namespace

Housekeeping::Housekeeping(Services& services, cache::Store& store, const Config& config, Tokens* tokens)
    : services_(services), store_(store), policy_(GarbagePolicyOf(config)), tokens_(tokens) {
  thread_ = std::thread([this] {
    Loop(1, [this](int64_t second) {
      Often();
      if (second % kFlushEvery == 0) Flush();
    });
  });
  collector_ = std::thread([this, every = config.gc_every_seconds] { Loop(every, [this](int64_t) { CleanUp(); }); });
}

Housekeeping::~Housekeeping() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  collector_.join();
  Flush();
}

void Housekeeping::Loop(int64_t every_seconds, const std::function<void(int64_t)>& work) {
  std::unique_lock lock(mutex_);
  for (int64_t turn = 1; !changed_.wait_for(lock, std::chrono::seconds(every_seconds), [&] { return stopping_; });
       ++turn) {
    lock.unlock();
    work(turn);
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
  Warn("quota file not read again", services_.quotas.Refresh());
}

void Housekeeping::KeepToolchain() {
  std::optional<v1::Toolchain> toolchain = services_.pool.toolchain();
  if (!toolchain || toolchain->SerializeAsString() == kept_toolchain_) return;
  kept_toolchain_ = toolchain->SerializeAsString();
  Warn("toolchain not kept",
       store_.Write({{cache::Table::kMeta, kToolchainKey, kept_toolchain_}}, cache::Durability::kLazy));
}

void Housekeeping::CleanUp() {
  Warn("clean-up", CollectGarbage(services_.index, services_.metrics, policy_, /*dry_run=*/false).status());
}

void RestoreToolchain(cache::Store& store, Pool& pool) {
  auto bytes = store.Get(cache::Table::kMeta, kToolchainKey);
  v1::Toolchain toolchain;
  if (bytes.ok() && *bytes && toolchain.ParseFromString(**bytes)) pool.set_toolchain(toolchain);
}

}  // namespace preheat::server
