#include "server/history.h"

#include <utility>

namespace preheat::server {
namespace {

constexpr int64_t kMinutesKept = 24 * 60;
constexpr size_t kCompilesKept = 50;

int64_t Count(const v1::StatsReply& stats, const char* result) {
  const auto found = stats.requests().find(result);
  return found == stats.requests().end() ? 0 : found->second;
}

}  // namespace

void History::Sample(int64_t unix_ms, const v1::StatsReply& stats) {
  Minute now = {.unix_minute = unix_ms / 60000,
                .hit = Count(stats, "hit"),
                .coalesced = Count(stats, "coalesced"),
                .compiled = Count(stats, "compiled"),
                .bad = Count(stats, "negative") + Count(stats, "refused") + Count(stats, "failed")};
  std::lock_guard lock(mutex_);
  const Minute before = std::exchange(before_, now);
  while (!minutes_.empty() && minutes_.front().unix_minute <= now.unix_minute - kMinutesKept) minutes_.pop_front();
  if (now.total() == before.total()) return;
  if (minutes_.empty() || minutes_.back().unix_minute != now.unix_minute)
    minutes_.push_back({.unix_minute = now.unix_minute});
  Minute& minute = minutes_.back();
  minute.hit += now.hit - before.hit;
  minute.coalesced += now.coalesced - before.coalesced;
  minute.compiled += now.compiled - before.compiled;
  minute.bad += now.bad - before.bad;
}

void History::Add(Compile compile) {
  std::lock_guard lock(mutex_);
  compiles_.push_front(std::move(compile));
  if (compiles_.size() > kCompilesKept) compiles_.pop_back();
}

std::vector<History::Minute> History::Minutes() const {
  std::lock_guard lock(mutex_);
  return {minutes_.begin(), minutes_.end()};
}

std::vector<History::Compile> History::Compiles() const {
  std::lock_guard lock(mutex_);
  return {compiles_.begin(), compiles_.end()};
}

}  // namespace preheat::server
