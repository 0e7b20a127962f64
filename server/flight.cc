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
  std::map<int64_t, Follower> followers;
  {
    std::lock_guard lock(mutex_);
    progress_ = progress;
    ++version_;
    told_ = std::chrono::steady_clock::now();
    followers = followers_;
  }
  changed_.notify_all();
  for (const auto& [number, follower] : followers) follower.first(progress);
}

void Flight::Beat() {
  std::optional<v1::Progress> again;
  {
    std::lock_guard lock(mutex_);
    if (!outcome_ && version_ != 0 && std::chrono::steady_clock::now() - told_ >= kHeartbeat) again = progress_;
  }
  if (again) Tell(*again);
}

void Flight::Finish(absl::StatusOr<Outcome> outcome) {
  std::map<int64_t, Follower> followers;
  {
    std::lock_guard lock(mutex_);
    if (outcome_) return;
    outcome_ = outcome;
    followers.swap(followers_);
  }
  changed_.notify_all();
  for (const auto& [number, follower] : followers) follower.second(outcome);
}

int64_t Flight::Follow(ProgressFn progress, EndFn end) {
  std::unique_lock lock(mutex_);
  const int64_t number = next_follower_++;
  if (!outcome_) {
    std::optional<v1::Progress> known;
    if (version_ != 0) known = progress_;
    followers_.emplace(number, Follower(progress, std::move(end)));
    lock.unlock();
    if (known) progress(*known);
    return number;
  }
  const absl::StatusOr<Outcome> outcome = *outcome_;
  lock.unlock();
  end(outcome);
  return number;
}

void Flight::Unfollow(int64_t follower) {
  std::lock_guard lock(mutex_);
  followers_.erase(follower);
}

}  // namespace preheat::server
