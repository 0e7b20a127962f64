#include "server/worker_processes.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/process_memory.h"

namespace preheat::server {
namespace {

constexpr std::chrono::milliseconds kFirstPause{200};
constexpr std::chrono::milliseconds kLongestPause{30000};
constexpr std::chrono::seconds kLivedWell{60};
constexpr std::chrono::milliseconds kWatchEvery{200};

constexpr int kNoDevice = 3;  // the exit status of a worker whose GPU is not there: it is not started again

}  // namespace

int CountGpus() {
  int count = 0;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", failed)) {
    const std::string name = entry.path().filename();
    int number = 0;
    count += absl::StartsWith(name, "nvidia") && absl::SimpleAtoi(name.substr(6), &number) ? 1 : 0;
  }
  return count;
}

void WorkerProcesses::Start() {
  for (int i = 0; i < options_.count + options_.gpus; ++i) keepers_.emplace_back([this, i] { Keep(i); });
  if (options_.on_memory) watcher_ = std::thread([this] { Watch(); });
}

// Heartbeats say the same, but a worker that is about to take all memory may not get to send any.
void WorkerProcesses::Watch() {
  while (Sleep(kWatchEvery)) {
    std::map<std::string, std::shared_ptr<Subprocess>> processes;
    {
      std::lock_guard lock(mutex_);
      processes = processes_;
    }
    for (const auto& [id, process] : processes) options_.on_memory(id, ResidentBytesWithChildren(process->pid()));
  }
}

std::string WorkerProcesses::Device(int index) const {
  return index < options_.count ? absl::StrCat("cpu:", index) : absl::StrCat("cuda:", index - options_.count);
}

std::string WorkerProcesses::WorkerId(int index) const { return absl::StrReplaceAll(Device(index), {{":", "-"}}); }

std::shared_ptr<Subprocess> WorkerProcesses::Spawn(int index) {
  const std::string log = index < options_.count ? absl::StrCat(index) : WorkerId(index);
  auto process = Subprocess::Start(
      {options_.program, "--server", options_.server, "--id", WorkerId(index), "--device", Device(index)},
      {.log_file = absl::StrCat(options_.log_folder, "/worker-", log, ".log"),
       .environment = {{"PREHEAT_POOL_TOKEN", options_.pool_token}}});
  if (!process.ok()) {
    spdlog::error("worker {}: {}", WorkerId(index), std::string(process.status().message()));
    return nullptr;
  }
  std::lock_guard lock(mutex_);
  std::shared_ptr<Subprocess> shared = *std::move(process);
  processes_[WorkerId(index)] = shared;
  if (stopping_) shared->Kill(SIGKILL);
  return shared;
}

// A worker asks to be killed when its parent ends, and the kernel takes the parent to be this thread: it stays as
// long as the process.
void WorkerProcesses::Keep(int index) {
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    auto started = std::chrono::steady_clock::now();
    if (std::shared_ptr<Subprocess> process = Spawn(index)) {
      ProcessEnd end = process->Wait();
      {
        std::lock_guard lock(mutex_);
        processes_.erase(WorkerId(index));
        changed_.notify_all();
        if (stopping_) return;
      }
      spdlog::log(end.Clean() ? spdlog::level::info : spdlog::level::warn, "worker {} (pid {}) ended: {}",
                  WorkerId(index), process->pid(), end.ToString());
      if (end.exit_code == kNoDevice) return;
      if (end.Clean()) pause = kFirstPause;  // one that gives its GPU back
    }
    if (std::chrono::steady_clock::now() - started > kLivedWell) pause = kFirstPause;
    if (!Sleep(pause)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

bool WorkerProcesses::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [&] { return stopping_; });
}

void WorkerProcesses::Kill(const std::string& worker_id) {
  std::lock_guard lock(mutex_);
  auto found = processes_.find(worker_id);
  if (found != processes_.end()) found->second->Kill(SIGKILL);
}

void WorkerProcesses::Stop(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [&] { return processes_.empty(); });
    for (auto& [id, process] : processes_) process->Kill(SIGKILL);
  }
  for (std::thread& keeper : keepers_) keeper.join();
  if (watcher_.joinable()) watcher_.join();
  keepers_.clear();
}

}  // namespace preheat::server
