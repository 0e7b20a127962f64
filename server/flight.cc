#include "server/flight.h"

#include <chrono>
#include <utility>

namespace preheat::server {
namespace {

constexpr std::chrono::milliseconds kCancelPoll{200};
constexpr std::chrono::seconds kHeartbeat{5};  // clients take a longer silence for a server that hangs

}  // namespace

absl::StatusOr<Outcome> Flight::Wait(const ProgressFn& progress, const std::function<bool()>& cancelled) {
  std::unique_lock lock(mutex_);
  auto heard = std::chrono::steady_clock::now();
  for (int told = 0; !outcome_;) {
    changed_.wait_for(lock, kCancelPoll, [&] { return outcome_ || version_ != told; });
    if (outcome_) break;
    std::optional<v1::Progress> news;
    const auto now = std::chrono::steady_clock::now();
    if (version_ != told || now - heard >= kHeartbeat) news = progress_, heard = now;
    told = version_;
    lock.unlock();
    if (news) progress(*news);
    if (cancelled()) return absl::CancelledError("the caller went away");
    lock.lock();
  }
  return *outcome_;
}

void Flight::Tell(const v1::Progress& progress) {
  std::vector<std::pair<ProgressFn, EndFn>> followers;
  {
    std::lock_guard lock(mutex_);
    progress_ = progress;
    ++version_;
    followers = followers_;
  }
  changed_.notify_all();
  for (const auto& [tell, end] : followers) tell(progress);
}

void Flight::Finish(absl::StatusOr<Outcome> outcome) {
  std::vector<std::pair<ProgressFn, EndFn>> followers;
  {
    std::lock_guard lock(mutex_);
    if (outcome_) return;
    outcome_ = outcome;
    followers.swap(followers_);
  }
  changed_.notify_all();
  for (const auto& [tell, end] : followers) end(outcome);
}

void Flight::Follow(ProgressFn progress, EndFn end) {
  std::optional<absl::StatusOr<Outcome>> outcome;
  {
    std::lock_guard lock(mutex_);
    outcome = outcome_;
    if (!outcome) followers_.emplace_back(std::move(progress), end);
  }
  if (outcome) end(*outcome);
}

}  // namespace preheat::server
