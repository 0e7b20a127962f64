#include "server/inflight_table.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace preheat::server {

InflightTable::Entry* InflightTable::Find(const std::shared_ptr<Flight>& flight) {
  auto found = by_alias_.find(flight->alias());
  return found != by_alias_.end() && found->second.flight == flight ? &found->second : nullptr;
}

void InflightTable::Erase(const Entry& entry) {
  if (!entry.key.empty()) by_key_.erase(entry.key);
  by_alias_.erase(std::string(entry.flight->alias()));
}

InflightTable::Entry& InflightTable::FindOrAdd(const std::string& alias) {
  Entry& entry = by_alias_[alias];
  if (entry.flight == nullptr) {
    entry.flight = std::make_shared<Flight>(alias);
    entry.promised = std::chrono::steady_clock::now();
  }
  return entry;
}

InflightTable::Joined InflightTable::Join(const std::string& alias) {
  std::lock_guard lock(mutex_);
  Entry& entry = FindOrAdd(alias);
  ++entry.waiters;
  return {entry.flight, std::exchange(entry.promised, std::nullopt).has_value()};
}

std::shared_ptr<Flight> InflightTable::JoinOrPromise(const std::string& alias) {
  std::lock_guard lock(mutex_);
  const bool known = by_alias_.count(alias) != 0;
  Entry& entry = FindOrAdd(alias);
  if (!known) return nullptr;
  ++entry.waiters;
  return entry.flight;
}

void InflightTable::Keep(const std::shared_ptr<Flight>& flight) {
  std::lock_guard lock(mutex_);
  if (Entry* entry = Find(flight)) entry->kept = true;
}

void InflightTable::OnAbandoned(const std::shared_ptr<Flight>& flight, std::function<void()> abandon) {
  {
    std::lock_guard lock(mutex_);
    if (Entry* entry = Find(flight)) {
      entry->abandon = std::move(abandon);
      return;
    }
  }
  abandon();  // everybody has left already
}

std::shared_ptr<Flight> InflightTable::ClaimKey(const std::string& key, const std::shared_ptr<Flight>& flight) {
  std::lock_guard lock(mutex_);
  auto found = by_key_.find(key);
  if (found != by_key_.end() && found->second != flight) {
    ++Find(found->second)->waiters;
    return found->second;
  }
  if (Entry* entry = Find(flight)) {
    if (!entry->key.empty()) by_key_.erase(entry->key);  // another worker may come to another key
    entry->key = key;
    by_key_[key] = flight;
  }
  return flight;
}

void InflightTable::Leave(const std::shared_ptr<Flight>& flight) {
  std::function<void()> abandon;
  {
    std::lock_guard lock(mutex_);
    Entry* entry = Find(flight);
    if (entry == nullptr || --entry->waiters > 0 || entry->kept) return;
    abandon = std::move(entry->abandon);
    Erase(Entry(*entry));
  }
  if (abandon) abandon();
}

void InflightTable::Finish(const std::shared_ptr<Flight>& flight, absl::StatusOr<Outcome> outcome) {
  {
    std::lock_guard lock(mutex_);
    if (Entry* entry = Find(flight)) Erase(Entry(*entry));
  }
  flight->Finish(std::move(outcome));
}

void InflightTable::Beat() {
  const auto oldest = std::chrono::steady_clock::now() - kSourceWait;
  std::vector<std::shared_ptr<Flight>> flights, broken;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [alias, entry] : by_alias_)
      (entry.promised && *entry.promised < oldest ? broken : flights).push_back(entry.flight);
    for (const auto& flight : broken) by_alias_.erase(flight->alias());
  }
  Outcome needed;
  needed.result = v1::SOURCE_NEEDED;
  for (const auto& flight : broken) flight->Finish(needed);
  for (const auto& flight : flights) flight->Beat();
}

size_t InflightTable::waited_for() {
  std::lock_guard lock(mutex_);
  return std::count_if(by_alias_.begin(), by_alias_.end(), [](const auto& entry) { return entry.second.waiters > 0; });
}

}  // namespace preheat::server
