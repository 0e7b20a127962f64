#ifndef PREHEAT_CACHE_KERNEL_INDEX_H_
#define PREHEAT_CACHE_KERNEL_INDEX_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cache/blobs.h"

namespace preheat::cache {

// Kernel key (digest of source, flags and toolchain) -> object file: programs that share a kernel compile it once.
// Safe from several threads at once.
class KernelIndex {
 public:
  // Both references must outlive it.
  KernelIndex(Store& store, Blobs& blobs, Clock clock) : store_(store), blobs_(blobs), clock_(std::move(clock)) {}

  // Those that are there.
  absl::StatusOr<std::map<std::string, std::string>> Lookup(const std::vector<std::string>& keys);
  // The first publisher of a key wins. INVALID_ARGUMENT "not_a_digest".
  absl::Status Publish(const std::map<std::string, std::string>& objects);

 private:
  Store& store_;
  Blobs& blobs_;
  const Clock clock_;
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_KERNEL_INDEX_H_
