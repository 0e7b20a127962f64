#ifndef PREHEAT_CACHE_BLOBS_H_
#define PREHEAT_CACHE_BLOBS_H_

#include <map>
#include <string>
#include <vector>

#include "cache/clock.h"
#include "cache/store.h"

namespace preheat::cache {

// Bytes by digest. Safe from several threads at once.
class Blobs {
 public:
  // `store` must outlive it.
  Blobs(Store& store, Clock clock) : store_(store), clock_(std::move(clock)) {}

  // Whether the bytes are there, by the small record alone; they are verified when read.
  absl::StatusOr<bool> Has(absl::string_view digest);

  // The bytes. NOT_FOUND "unknown_blob", also when they turned out to be corrupt.
  absl::StatusOr<std::string> Read(absl::string_view digest);

  // Those that are not there, in order. The others count as just used. INVALID_ARGUMENT "not_a_digest".
  absl::StatusOr<std::vector<std::string>> FindMissing(const std::vector<std::string>& digests);

  // Writes those that are not there and touches those that are, synced: when it returns OK they survive a crash, and no
  // sweep takes them for an hour. REQUIRES: each digest is that of its bytes.
  absl::Status Put(const std::map<std::string, std::string>& blobs);

  // Makes the sweep spare them for a while, whoever names them. Unknown ones are ignored.
  absl::Status Touch(const std::vector<std::string>& digests, Durability durability);

 private:
  Store& store_;
  const Clock clock_;
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_BLOBS_H_
