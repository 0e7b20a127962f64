#ifndef PREHEAT_CACHE_FOOTPRINT_H_
#define PREHEAT_CACHE_FOOTPRINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/store.h"

namespace preheat::cache {

// Which keys and kernels name which blobs, and what they come to when each blob counts once. A value for one thread.
class Footprint {
 public:
  struct Item {
    Table table;  // kGeneration: all generations of a key; kKernel
    std::string key;
    int64_t last_used_ms = 0;
    std::vector<std::string> digests;
  };

  void AddSize(std::string digest, int64_t bytes) { blobs_[std::move(digest)].bytes = bytes; }
  // Adds to the item of that key if it was the last one.
  void Add(Table table, const std::string& key, int64_t last_used_ms, const std::vector<std::string>& digests);

  std::vector<Item>& items() { return items_; }
  std::vector<Item> LeastRecentlyUsedFirst() const;

  // Of all blobs that an item names.
  int64_t bytes() const { return bytes_; }
  // Takes the item out. Returns how many bytes no other item names.
  int64_t Drop(const Item& item);

 private:
  struct Blob {
    int64_t bytes = 0;
    int names = 0;
  };
  std::map<std::string, Blob> blobs_;
  std::vector<Item> items_;
  int64_t bytes_ = 0;
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_FOOTPRINT_H_
