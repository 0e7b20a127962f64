#include "cache/footprint.h"

#include <algorithm>

namespace preheat::cache {

void Footprint::Add(Table table, const std::string& key, int64_t last_used_ms,
                    const std::vector<std::string>& digests) {
  if (items_.empty() || items_.back().table != table || items_.back().key != key) items_.push_back({table, key, 0, {}});
  Item& item = items_.back();
  item.last_used_ms = std::max(item.last_used_ms, last_used_ms);
  for (const std::string& digest : digests) {
    item.digests.push_back(digest);
    Blob& blob = blobs_[digest];
    if (blob.names++ == 0) bytes_ += blob.bytes;
  }
}

std::vector<Footprint::Item> Footprint::LeastRecentlyUsedFirst() const {
  std::vector<Item> sorted = items_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Item& a, const Item& b) { return a.last_used_ms < b.last_used_ms; });
  return sorted;
}

int64_t Footprint::Drop(const Item& item) {
  int64_t freed = 0;
  for (const std::string& digest : item.digests) {
    Blob& blob = blobs_[digest];
    if (--blob.names == 0) freed += blob.bytes;
  }
  bytes_ -= freed;
  return freed;
}

}  // namespace preheat::cache
